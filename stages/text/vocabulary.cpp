#include "stages/text/vocabulary.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <queue>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <utf8proc.h>
#include <nlohmann/json.hpp>

#include "runner/shared/text/printable.h"
#include "runner/shared/text/utf8.h"
#include "runner/shared/weights/strict_json.h"

namespace stages {
namespace {

constexpr std::int32_t kJoinedToTheLeft = -1;  // merged into the token to its left
constexpr std::size_t kNoSymbol = static_cast<std::size_t>(-1);

struct Symbol {
  std::int32_t token = 0;
  std::size_t before = kNoSymbol, after = kNoSymbol;
};

/// Two neighbors that may be merged. The earliest rule is applied first; for the same rule, the
/// leftmost pair.
struct Joint {
  std::int32_t rank = 0;
  std::size_t left = 0;
  std::int32_t joined = 0;
  std::int32_t tokens[2] = {};  // the tokens when the pair was found
  bool operator>(const Joint& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

}  // namespace

BytePairs::BytePairs(const ByteTokens& bytes, const std::vector<BytePair>& pairs) : bytes_(bytes) {
  rules_.reserve(pairs.size());
  for (const BytePair& pair : pairs)
    rules_.push_back(
        {pair_of(pair.left, pair.right), static_cast<std::int32_t>(rules_.size()), pair.joined});
  std::ranges::sort(rules_, {}, &Rule::pair);
}

std::vector<BytePair> BytePairs::pairs() const {
  std::vector<BytePair> pairs(rules_.size());
  for (const Rule& rule : rules_) {
    pairs[static_cast<std::size_t>(rule.rank)] = {static_cast<std::int32_t>(rule.pair >> 32),
                                                  static_cast<std::int32_t>(rule.pair & 0xffffffff),
                                                  rule.joined};
  }
  return pairs;
}

const BytePairs::Rule* BytePairs::rule(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  const auto found = std::ranges::lower_bound(rules_, pair, {}, &Rule::pair);
  return found != rules_.end() && found->pair == pair ? &*found : nullptr;
}

void BytePairs::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  std::vector<Symbol> symbols(piece.size());
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const bool is_last = i + 1 == piece.size();
    symbols[i].token =
        (is_last ? bytes_.at_end : bytes_.within)[static_cast<unsigned char>(piece[i])];
    symbols[i].before = i == 0 ? kNoSymbol : i - 1;
    symbols[i].after = is_last ? kNoSymbol : i + 1;
  }
  std::priority_queue<Joint, std::vector<Joint>, std::greater<>> joints;
  const auto consider = [&](std::size_t left) {
    if (left == kNoSymbol || symbols[left].after == kNoSymbol) return;
    const std::int32_t tokens[2] = {symbols[left].token, symbols[symbols[left].after].token};
    if (const Rule* found = rule(tokens[0], tokens[1]))
      joints.push({found->rank, left, found->joined, {tokens[0], tokens[1]}});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) consider(i);

  while (!joints.empty()) {
    const Joint joint = joints.top();
    joints.pop();
    Symbol& left = symbols[joint.left];
    if (left.token != joint.tokens[0] || left.after == kNoSymbol) continue;
    Symbol& right = symbols[left.after];
    if (right.token != joint.tokens[1]) continue;
    left.token = joint.joined;
    left.after = right.after;
    right.token = kJoinedToTheLeft;
    if (left.after != kNoSymbol) symbols[left.after].before = joint.left;
    consider(left.before);
    consider(joint.left);
  }
  for (const Symbol& symbol : symbols) {
    if (symbol.token != kJoinedToTheLeft) ids.push_back(symbol.token);
  }
}

namespace {

constexpr std::string_view kPieceEnd = "</w>", kStartToken = "<|startoftext|>",
                           kEndToken = "<|endoftext|>";

/// Returns the bytes in token order: first those that are printable in Latin-1, which represent
/// themselves, then the others.
std::vector<unsigned char> bytes_in_order() {
  std::vector<unsigned char> order, others;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    (is_printable ? order : others).push_back(static_cast<unsigned char>(byte));
  }
  order.insert(order.end(), others.begin(), others.end());
  return order;
}

/// Returns the symbol of the byte at `place` in the order of bytes_in_order(). Unprintable bytes
/// are represented by characters starting at U+0100.
std::string symbol(unsigned char byte, std::size_t place) {
  constexpr std::size_t kPrintable = 188;
  std::string text;
  append_utf8(place < kPrintable ? byte : static_cast<char32_t>(0x100 + place - kPrintable), text);
  return text;
}

[[noreturn]] void refuse_line(std::size_t number, const std::string& what) {
  throw std::invalid_argument("line " + std::to_string(number) + ": " + what);
}

std::string shown_token(const std::string& token) {
  return "'" + runner::printable(token.substr(0, 80)) + "'";
}

/// The tokens from a list of merges, by text and by ID.
class TokenList {
 public:
  TokenList() {
    const std::vector<unsigned char> order = bytes_in_order();
    for (const bool is_end : {false, true}) {
      for (std::size_t place = 0; place < order.size(); ++place) {
        (is_end ? made_.bytes.at_end : made_.bytes.within)[order[place]] =
            add(symbol(order[place], place) + std::string(is_end ? kPieceEnd : ""));
      }
    }
  }

  /// Adds the merge in `line`, the line with this number.
  void merge(std::size_t number, std::string_view line) {
    const std::size_t gap = line.find(' ');
    if (gap == line.npos || gap == 0 || gap + 1 == line.size() ||
        line.find(' ', gap + 1) != line.npos)
      refuse_line(number, "it is not two tokens separated by a space");
    const std::string left(line.substr(0, gap)), right(line.substr(gap + 1)), joined = left + right;
    if (numbers_.contains(joined)) refuse_line(number, shown_token(joined) + " is already a token");
    made_.pairs.push_back({number_of(number, left), number_of(number, right), add(joined)});
  }

  /// Adds the start and end tokens and returns the vocabulary.
  Vocabulary finish() {
    made_.start = add(std::string(kStartToken));
    made_.end = add(std::string(kEndToken));
    made_.size = static_cast<std::int32_t>(texts_.size());
    return std::move(made_);
  }

  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::int32_t add(std::string token) {
    const auto number = static_cast<std::int32_t>(texts_.size());
    numbers_.emplace(token, number);
    texts_.push_back(std::move(token));
    return number;
  }

  std::int32_t number_of(std::size_t line, const std::string& token) const {
    const auto found = numbers_.find(token);
    if (found == numbers_.end())
      refuse_line(line,
                  shown_token(token) + " is neither a byte nor the result of an earlier line");
    return found->second;
  }

  Vocabulary made_;
  std::vector<std::string> texts_;  // by token ID
  std::unordered_map<std::string, std::int32_t> numbers_;
};

TokenList tokens_of(std::string_view text) {
  if (const auto bad = runner::invalid_utf8(text))
    throw std::invalid_argument("it is not UTF-8 at byte " + std::to_string(*bad + 1));
  TokenList tokens;
  std::size_t number = 0;
  while (!text.empty() && number <= kUsedMerges) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (++number > 1) tokens.merge(number, line);
    else if (line.find("#version") == line.npos)
      refuse_line(1, "it is not the '#version' line that starts a list of merges");
  }
  if (number == 0) throw std::invalid_argument("it is empty");
  return tokens;
}

/// Returns the token IDs in `json`, in the order of `tokens`.
std::vector<std::int32_t> given_numbers(const std::vector<std::string>& tokens,
                                        std::string_view json) {
  const nlohmann::json given = runner::parse_strict_json(json, 1, "it");
  if (!given.is_object())
    throw std::invalid_argument("it is not a JSON object of tokens and their numbers");
  std::vector<std::int32_t> numbers;
  std::vector<const std::string*> taken(tokens.size());
  for (const std::string& token : tokens) {
    const auto found = given.find(token);
    if (found == given.end())
      throw std::invalid_argument("it lacks the token " + shown_token(token) + " of the merges");
    if (!found->is_number_unsigned() || found->get<std::uint64_t>() >= tokens.size()) {
      throw std::invalid_argument("the number of " + shown_token(token) + " is " +
                                  runner::printable_ascii(found->dump()) + ", but the " +
                                  std::to_string(tokens.size()) + " tokens are numbered from 0");
    }
    const auto number = found->get<std::size_t>();
    if (taken[number])
      throw std::invalid_argument(shown_token(token) + " has the same number as " +
                                  shown_token(*taken[number]));
    taken[number] = &token;
    numbers.push_back(static_cast<std::int32_t>(number));
  }
  if (given.size() > tokens.size()) {
    const std::unordered_set<std::string_view> known(tokens.begin(), tokens.end());
    for (const auto& [token, number] : given.items()) {
      if (!known.contains(token))
        throw std::invalid_argument("it has the token " + shown_token(token) +
                                    ", which no merge produces");
    }
  }
  return numbers;
}

/// Returns the text of every token, by token ID.
std::vector<std::string> texts_of_tokens(const Vocabulary& vocabulary) {
  std::vector<std::string> texts(static_cast<std::size_t>(vocabulary.size));
  const auto text = [&](std::int32_t token) -> std::string& {
    return texts[static_cast<std::size_t>(token)];
  };
  const std::vector<unsigned char> order = bytes_in_order();
  for (std::size_t place = 0; place < order.size(); ++place) {
    text(vocabulary.bytes.within[order[place]]) = symbol(order[place], place);
    text(vocabulary.bytes.at_end[order[place]]) =
        symbol(order[place], place) + std::string(kPieceEnd);
  }
  for (const BytePair& pair : vocabulary.pairs)
    text(pair.joined) = text(pair.left) + text(pair.right);
  text(vocabulary.start) = kStartToken;
  text(vocabulary.end) = kEndToken;
  return texts;
}

}  // namespace

std::string merges_text(const Vocabulary& vocabulary) {
  const std::vector<std::string> texts = texts_of_tokens(vocabulary);
  std::string result = "#version: 0.2\n";
  for (const BytePair& pair : vocabulary.pairs)
    result += texts[static_cast<std::size_t>(pair.left)] + " " +
              texts[static_cast<std::size_t>(pair.right)] + "\n";
  return result;
}

std::string numbers_text(const Vocabulary& vocabulary) {
  std::string result = "{";
  std::int32_t number = 0;
  for (const std::string& text : texts_of_tokens(vocabulary)) {
    result += (number == 0 ? "" : ",") + nlohmann::json(text).dump() + ":" + std::to_string(number);
    ++number;
  }
  return result + "}\n";
}

Vocabulary read_merges(std::string_view text) { return tokens_of(text).finish(); }

Vocabulary read_merges(std::string_view text, std::string_view json) {
  TokenList tokens = tokens_of(text);
  Vocabulary vocabulary = tokens.finish();
  const std::vector<std::int32_t> numbers = given_numbers(tokens.texts(), json);
  const auto renumber = [&](std::int32_t& token) {
    token = numbers[static_cast<std::size_t>(token)];
  };
  for (auto* bytes : {&vocabulary.bytes.within, &vocabulary.bytes.at_end})
    std::ranges::for_each(*bytes, renumber);
  for (BytePair& pair : vocabulary.pairs) {
    for (std::int32_t* token : {&pair.left, &pair.right, &pair.joined}) renumber(*token);
  }
  renumber(vocabulary.start);
  renumber(vocabulary.end);
  return vocabulary;
}

namespace {

constexpr char32_t kCapitalIWithDot = 0x130, kCombiningDot = 0x307;

const utf8proc_uint8_t* utf8proc_bytes(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

}  // namespace

CharacterClass character_class(char32_t character) {
  if ((character >= '\t' && character <= '\r') || character == 0x85) return CharacterClass::kSpace;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO)
    return CharacterClass::kLetter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO)
    return CharacterClass::kNumber;
  if (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP)
    return CharacterClass::kSpace;
  return CharacterClass::kOther;
}

bool is_compatibility_form(char32_t character) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(character))->decomp_type != 0;
}

CodePoint first_code_point(std::string_view text) {
  utf8proc_int32_t character = 0;
  const utf8proc_ssize_t bytes = utf8proc_iterate(
      utf8proc_bytes(text), static_cast<utf8proc_ssize_t>(text.size()), &character);
  return {static_cast<char32_t>(character), static_cast<std::size_t>(bytes)};
}

void append_utf8(char32_t character, std::string& text) {
  utf8proc_uint8_t bytes[4] = {};
  const utf8proc_ssize_t count =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

void append_lower_case(char32_t character, std::string& text) {
  append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))),
              text);
  // The only character that lowercases to two characters regardless of language.
  if (character == kCapitalIWithDot) append_utf8(kCombiningDot, text);
}

std::string composed(std::string_view text) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(utf8proc_bytes(text), static_cast<utf8proc_ssize_t>(text.size()), &made,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (bytes < 0) throw std::bad_alloc();
  return std::string(reinterpret_cast<const char*>(made), static_cast<std::size_t>(bytes));
}

std::string folded(std::string_view text) {
  std::string lower;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    append_lower_case(point.value, lower);
    text.remove_prefix(point.bytes);
  }
  return composed(lower);
}

}  // namespace stages
