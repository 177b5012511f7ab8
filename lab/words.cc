// Implementation of words.h.
// SPDX-License-Identifier: Apache-2.0
#include "words.h"

#include <cstring>

#include "text.h"

namespace lds::lab {
namespace {

// Larger than any field: such a number is refused whatever it is.
constexpr int64_t kMostNumber = int64_t{1} << 62;

bool is_word(char c) { return is_letter(c) || is_digit(c) || (c & 0x80) != 0; }
bool is_continuation(char c) { return (c & 0xC0) == 0x80; }
bool is_hex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }

// Bytes of the word that begins at `at`, which is no space.
size_t word_bytes(const std::string &text, size_t at) {
  size_t end = at + 1;
  if (is_letter(text[at])) {
    while (end < text.size() && is_word(text[end])) ++end;
    return end - at;
  }
  if (is_digit(text[at])) {
    if (text[at] == '0' && at + 2 < text.size() && (text[at + 1] == 'x' || text[at + 1] == 'X') && is_hex(text[at + 2])) {
      for (end = at + 3; end < text.size() && is_hex(text[end]);) ++end;
      return end - at;
    }
    while (end < text.size() && is_digit(text[end])) ++end;
    return end - at;
  }
  if (text.compare(at, 2, "..") == 0) return 2;
  for (const Word &sign : kSigns)
    if (!is_letter(sign.text[0]) && text.compare(at, std::strlen(sign.text), sign.text) == 0) return std::strlen(sign.text);
  while (end < text.size() && is_continuation(text[end])) ++end;
  return end - at;
}

}  // namespace

std::string quoted(const std::string &word) {
  const char quote = word.find('\'') == std::string::npos ? '\'' : '"';
  std::string text(1, quote);
  for (const char c : word) text += c == '\\' ? std::string("\\\\") : std::string(1, c);
  return text + quote;
}

WordReader::WordReader(const std::string &line) {
  for (size_t at = 0; at < line.size();) {
    if (is_space(line[at])) {
      ++at;
      continue;
    }
    words_.push_back(line.substr(at, word_bytes(line, at)));
    at += words_.back().size();
  }
  words_.push_back("");
}

int64_t WordReader::number() {
  const int64_t sign = take("-") ? -1 : 1;
  if (at_end() || !is_digit(peek()[0])) fail("a number");
  const std::string word = next();
  const bool hex = word.size() > 1 && (word[1] == 'x' || word[1] == 'X');
  int64_t value = 0;
  for (size_t k = hex ? 2 : 0; k < word.size(); ++k) {
    const int digit = is_digit(word[k]) ? word[k] - '0' : std::tolower(static_cast<unsigned char>(word[k])) - 'a' + 10;
    value = value > kMostNumber / 16 ? kMostNumber : value * (hex ? 16 : 10) + digit;
  }
  return sign * value;
}

void WordReader::fail_of(const std::vector<std::string> &names) const {
  std::string all;
  for (const std::string &name : names) all += (all.empty() ? "one of " : ", ") + name;
  fail(all);
}

void WordReader::fail(const std::string &expected) const {
  throw Refusal{(at_ > 0 ? "after " + quoted(words_[at_ - 1]) + ": " : "") + "expected " + expected + ", found " +
                (at_end() ? "the end of the line" : quoted(peek()))};
}

}  // namespace lds::lab
