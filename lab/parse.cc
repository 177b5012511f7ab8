// Text -> instructions, by the grammar of python/loadstone/vta/isa/asm_parser.py.
//
// In:   lines of text.
// Out:  values of fields; Refusal says what was expected where.
// Next: print.cc; bench.cc assembles what a visitor writes.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "text.h"
#include "words.h"

namespace lds::lab {
namespace {

// --- parts of an instruction ----------------------------------------------------------------------------------------------------
void read_scratchpad(WordReader &r, Values &v) {
  v["memory_id"] = r.one_of(kMemories);
  r.expect("[");
  v["sram_base"] = r.number();
  r.expect("]");
}

// [base + stride y + x]; without the y term the stride is that of read_rows.
void read_place(WordReader &r, Values &v) {
  r.expect("[");
  v["dram_base"] = r.number();
  r.expect("+");
  if (!r.is("x")) {
    v["x_stride"] = r.number();
    r.expect("y");
    r.expect("+");
  }
  r.expect("x");
  r.expect("]");
}

// dramR and a place.
void read_dram(WordReader &r, Values &v) {
  const std::string name = "dram", word = r.peek();
  bool fits = word.compare(0, name.size(), name) == 0;
  for (size_t k = name.size(); k < word.size(); ++k) fits = fits && is_digit(word[k]);
  if (!fits) r.fail("'dram' and the number of a region");
  r.next();
  if (word.size() > name.size()) v["region"] = WordReader(word.substr(name.size())).number();
  read_place(r, v);
}

void read_rows(WordReader &r, Values &v) {
  r.expect("for");
  const bool flat = !r.take("y");
  if (!flat) {
    r.expect("<");
    v["y_size"] = r.number();
  }
  r.expect("x");
  r.expect("<");
  v["x_size"] = r.number();
  if (!flat) return;
  v["y_size"] = 1;
  v["x_stride"] = v["x_size"];
}

const Side *take_side(WordReader &r) {
  for (const Side &side : kSides)
    if (r.take(side.text)) return &side;
  return nullptr;
}

void read_pads(WordReader &r, Values &v) {
  if (!r.take("pad")) return;
  const Side *side = take_side(r);
  if (side == nullptr) {
    std::vector<std::string> names;
    for (const Side &each : kSides) names.emplace_back(each.text);
    r.fail_of(names);
  }
  for (; side != nullptr; side = take_side(r)) v[side->field] = r.number();
}

// A loop, and the field that says how far an operand moves with it.
struct Moves {
  const char *loop, *field;
};

// memory[u + factor i + factor j]
void read_tile(WordReader &r, Values &v, const char *memory, const std::vector<Moves> &moves) {
  std::vector<std::string> loops;
  for (const Moves &each : moves) loops.emplace_back(each.loop);
  const auto at_loop = [&] {
    for (const Moves &each : moves)
      if (r.is(each.loop)) return &each;
    return static_cast<const Moves *>(nullptr);
  };
  r.expect(memory);
  r.expect("[");
  r.expect("u");
  while (r.take("+")) {
    const int64_t factor = at_loop() != nullptr ? 1 : r.number();
    const Moves *loop = at_loop();
    if (loop == nullptr) r.fail_of(loops);
    r.next();
    v[loop->field] = factor;
  }
  r.expect("]");
}

const std::vector<Moves> kDst = {{"i", "dst_out"}, {"j", "dst_in"}}, kSrc = {{"i", "src_out"}, {"j", "src_in"}},
                         kWgt = {{"i", "wgt_out"}, {"j", "wgt_in"}};

void read_loops(WordReader &r, Values &v) {
  for (const char *word : {"for", "i", "<"}) r.expect(word);
  v["iter_out"] = r.number();
  r.expect("j");
  r.expect("<");
  v["iter_in"] = r.number();
  r.expect("u");
  r.expect("in");
  v["uop_bgn"] = r.number();
  r.expect("..");
  v["uop_end"] = r.number();
}

// --- instructions ---------------------------------------------------------------------------------------------------------------
Values read_load(WordReader &r) {
  Values v(LDS_OPCODE_LOAD);
  read_scratchpad(r, v);
  r.expect("=");
  read_dram(r, v);
  read_rows(r, v);
  read_pads(r, v);
  return v;
}

Values read_store(WordReader &r) {
  Values v(LDS_OPCODE_STORE);
  const bool to_inp = r.take("inp");
  to_inp ? read_place(r, v) : read_dram(r, v);
  r.expect("=");
  if (to_inp && !r.is("out")) r.fail("'out'");
  if (r.is("inp")) r.fail("'out': INP is stored to, as inp[...] = out[...]");
  read_scratchpad(r, v);
  if (to_inp) v["memory_id"] = LDS_MEMORY_INP;
  if (r.take("rq")) {
    r.expect("acc");
    r.expect("[");
    v["requantize"] = 1;
    v["operands"] = r.number();
    if (r.take("+")) {
      r.expect("3");
      r.expect("y");
      v["operand_step"] = 1;
    }
    r.expect("]");
  }
  read_rows(r, v);
  return v;
}

Values read_gemm(WordReader &r) {
  Values v(LDS_OPCODE_GEMM);
  read_tile(r, v, "acc", kDst);
  const bool adds = r.take("+=");
  if (!adds && !r.take("=")) r.fail_of({"+=", "="});
  if (!adds && r.take("0")) {
    v["reset"] = 1;
  } else {
    v["overwrite"] = adds ? 0 : 1;
    read_tile(r, v, "inp", kSrc);
    r.expect("*");
    read_tile(r, v, "wgt", kWgt);
  }
  read_loops(r, v);
  return v;
}

Values read_depthwise(WordReader &r) {
  Values v(LDS_OPCODE_DEPTHWISE);
  read_tile(r, v, "acc", kDst);
  const bool adds = r.take("+=");
  if (!adds && !r.take("=")) r.fail_of({"+=", "="});
  v["overwrite"] = adds ? 0 : 1;
  read_tile(r, v, "inp", {{"i", "src_out"}, {"j", "src_in"}, {"r", "row_stride"}});
  r.expect("*");
  read_tile(r, v, "wgt", {{"i", "wgt_out"}});
  read_loops(r, v);
  r.expect("r");
  r.expect("<");
  v["rows"] = r.number();
  r.expect("c");
  r.expect("<");
  v["columns"] = r.number();
  v["wide"] = r.take("wide") ? 1 : 0;
  return v;
}

// A sign that is a name is two words: `rq` and `=`.
uint32_t read_sign(WordReader &r) {
  std::vector<std::string> names;
  for (const Word &sign : kSigns) {
    const std::string text = sign.text;
    const bool named = is_letter(text[0]);
    names.push_back(named ? text.substr(0, text.size() - 1) : text);
    if (!r.take(names.back())) continue;
    if (named) r.expect("=");
    return sign.value;
  }
  r.fail_of(names);
}

Values read_alu(WordReader &r) {
  Values v(LDS_OPCODE_ALU);
  read_tile(r, v, "acc", kDst);
  v["alu_op"] = read_sign(r);
  if (r.is("acc")) {
    read_tile(r, v, "acc", kSrc);
  } else {  // the RTL reads src also then: where nothing else is said, it is dst
    v["use_imm"] = 1;
    v["imm"] = r.number();
    v["src_out"] = v["dst_out"];
    v["src_in"] = v["dst_in"];
  }
  read_loops(r, v);
  return v;
}

Values read_config(WordReader &r) {
  Values v(LDS_OPCODE_CONFIG);
  v["stage"] = r.one_of(kStages);
  v["register_id"] = r.one_of(kRegisters);
  r.expect("=");
  for (const Word &rounding : kRoundings) {
    if (!r.take(rounding.text)) continue;
    v["value"] = rounding.value;
    return v;
  }
  v["value"] = r.number();
  return v;
}

Values read_nop(WordReader &r) {
  std::vector<std::string> names;
  for (const Nothing &nothing : kNothings) {
    if (r.take(nothing.text)) {
      Values v(nothing.opcode);
      v["memory_id"] = nothing.memory;
      return v;
    }
    names.emplace_back(nothing.text);
  }
  r.fail_of(names);
}

Values read_finish(WordReader &) { return Values(LDS_OPCODE_FINISH); }

const struct {
  const char *verb;
  Values (*read)(WordReader &);
} kVerbs[] = {{"load", read_load}, {"store", read_store},   {"gemm", read_gemm}, {"depthwise", read_depthwise},
              {"alu", read_alu},   {"config", read_config}, {"nop", read_nop},   {"finish", read_finish}};

Values read_verb(WordReader &r) {
  std::vector<std::string> names;
  for (const auto &verb : kVerbs) {
    if (r.take(verb.verb)) return verb.read(r);
    names.emplace_back(verb.verb);
  }
  r.fail_of(names);
}

// What the readable form does not say.
void read_unsaid(WordReader &r, Values &v) {
  if (!r.take("with")) return;
  while (!r.at_end() && !r.is("push")) {
    std::vector<std::string> names;
    for (uint32_t k = 0; k < v.form->count; ++k) names.emplace_back(v.form->fields[k].name);
    bool known = false;
    for (const std::string &name : names) known = known || r.is(name);
    if (!known) r.fail_of(names);
    const std::string name = r.next();
    r.expect("=");
    v[name] = r.number();
  }
}

std::vector<uint32_t> read_tokens(WordReader &r, const char *verb) {
  std::vector<uint32_t> stages;
  while (r.take(verb)) {
    r.expect("(");
    stages.push_back(r.one_of(kStages));
    r.expect(")");
  }
  return stages;
}

// Sets the flag of each token; which one that is follows from the instruction's stage.
void set_tokens(Values &v, const char *verb, const std::vector<uint32_t> &stages) {
  const uint32_t own = stage_of(v);
  for (const uint32_t stage : stages) {
    const Neighbour *found = nullptr;
    std::string names;
    for (const Neighbour &each : kNeighbours) {
      if (each.stage != own) continue;
      names += (names.empty() ? "" : ", ") + std::string(each.text);
      if (std::strcmp(each.text, kStages[stage].text) == 0) found = &each;
    }
    if (found == nullptr)
      throw Refusal{std::string(verb) + "(" + kStages[stage].text + ") in stage " + kStages[own].text + ": expected one of " + names};
    v[std::strcmp(verb, "pop") == 0 ? found->pop : found->push] = 1;
  }
}

std::string stripped(const std::string &line) {
  size_t begin = 0, end = line.size();
  while (begin < end && is_space(line[begin])) ++begin;
  while (end > begin && is_space(line[end - 1])) --end;
  return line.substr(begin, end - begin);
}

// Without its comment, and without the number that a listing puts in front.
std::string source_of(const std::string &line) {
  bool in_quotes = false;
  size_t end = 0;
  for (; end < line.size(); ++end) {
    in_quotes ^= line[end] == '"';
    if (line[end] == '#' && !in_quotes) break;
  }
  std::string text = stripped(line.substr(0, end));
  size_t digits = 0;
  while (digits < text.size() && is_digit(text[digits])) ++digits;
  return digits > 0 && digits < text.size() && text[digits] == ':' ? stripped(text.substr(digits + 1)) : text;
}

}  // namespace

Values parse(const std::string &line) {
  WordReader r(source_of(line));
  const std::vector<uint32_t> pops = read_tokens(r, "pop");
  Values v = read_verb(r);
  read_unsaid(r, v);
  const std::vector<uint32_t> pushes = read_tokens(r, "push");
  if (!r.at_end()) r.fail("'with', 'push(' or the end of the line");
  set_tokens(v, "pop", pops);
  set_tokens(v, "push", pushes);
  return v;
}

Assembled assemble(const std::string &text, lds_isa_widths widths) {
  Assembled made;
  uint32_t number = 0;
  for (size_t at = 0; at <= text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = source_of(text.substr(at, end - at));
    at = end + 1;
    if (line.empty()) continue;
    try {
      encode(parse(line), widths, &made.bytes);
    } catch (const Refusal &refusal) {
      throw Refusal{"line " + std::to_string(number + 1) + ": " + refusal.message};
    }
    made.lines.push_back(number);
  }
  return made;
}

}  // namespace lds::lab
