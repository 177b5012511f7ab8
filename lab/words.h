// The words of one line of text.
//
// In:   a line.
// Out:  one word after another, and the numbers among them; Refusal says what was expected where.
// Next: parse.cc has the grammar.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <cstdint>
#include <string>
#include <vector>

#include "isa_words.h"

namespace lds::lab {

inline bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string quoted(const std::string &word);

// Takes the words from left to right.
class WordReader {
 public:
  explicit WordReader(const std::string &line);

  const std::string &peek() const { return words_[at_]; }
  bool at_end() const { return peek().empty(); }
  bool is(const std::string &word) const { return peek() == word; }
  std::string next() { return words_[at_++]; }

  bool take(const std::string &word) {
    if (!is(word)) return false;
    ++at_;
    return true;
  }

  void expect(const std::string &word) {
    if (!take(word)) fail(quoted(word));
  }

  // Of any length: what is larger than any field stays so.
  int64_t number();

  // The value of one of these words.
  template <size_t kCount>
  uint32_t one_of(const Word (&words)[kCount]) {
    std::vector<std::string> names;
    for (const Word &word : words) {
      if (take(word.text)) return word.value;
      names.emplace_back(word.text);
    }
    fail_of(names);
  }

  [[noreturn]] void fail_of(const std::vector<std::string> &names) const;
  [[noreturn]] void fail(const std::string &expected) const;

 private:
  std::vector<std::string> words_;
  size_t at_ = 0;
};

}  // namespace lds::lab
