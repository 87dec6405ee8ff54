#include "stages/text/vocabulary.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/text/printable.h"
#include "runner/shared/text/utf8.h"
#include "runner/shared/weights/strict_json.h"
#include "stages/text/code_points.h"

namespace stages {
namespace {

constexpr std::string_view kPieceEnd = "</w>", kStartToken = "<|startoftext|>", kEndToken = "<|endoftext|>";

/// The bytes in the order of their tokens: first those that are printable in Latin-1, which stand for themselves, then
/// the others.
std::vector<unsigned char> bytes_in_order() {
  std::vector<unsigned char> order, others;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    (is_printable ? order : others).push_back(static_cast<unsigned char>(byte));
  }
  order.insert(order.end(), others.begin(), others.end());
  return order;
}

/// How the byte at `place` of that order is written: the others as the characters from U+0100.
std::string symbol(unsigned char byte, std::size_t place) {
  constexpr std::size_t kPrintable = 188;
  std::string text;
  append_utf8(place < kPrintable ? byte : static_cast<char32_t>(0x100 + place - kPrintable), text);
  return text;
}

[[noreturn]] void refuse_line(std::size_t number, const std::string& what) {
  throw std::invalid_argument("line " + std::to_string(number) + ": " + what);
}

std::string shown_token(const std::string& token) { return "'" + runner::printable(token.substr(0, 80)) + "'"; }

/// The tokens of a list of merges, by text and by number.
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

  /// The merge on the line of this number.
  void merge(std::size_t number, std::string_view line) {
    const std::size_t gap = line.find(' ');
    if (gap == line.npos || gap == 0 || gap + 1 == line.size() || line.find(' ', gap + 1) != line.npos)
      refuse_line(number, "it is not two tokens with a space between them");
    const std::string left(line.substr(0, gap)), right(line.substr(gap + 1)), joined = left + right;
    if (numbers_.contains(joined)) refuse_line(number, shown_token(joined) + " is a token already");
    made_.pairs.push_back({number_of(number, left), number_of(number, right), add(joined)});
  }

  /// All of them, and then what frames a text.
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
      refuse_line(line, shown_token(token) + " is neither a byte nor made by a line before it");
    return found->second;
  }

  Vocabulary made_;
  std::vector<std::string> texts_;  // by number
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
      refuse_line(1, "it is not the '#version' that a list of merges begins with");
  }
  if (number == 0) throw std::invalid_argument("it is empty");
  return tokens;
}

/// The numbers that `json` gives to the tokens, by their numbers in the list.
std::vector<std::int32_t> given_numbers(const std::vector<std::string>& tokens, std::string_view json) {
  const nlohmann::json given = runner::parse_strict_json(json, 1, "it");
  if (!given.is_object()) throw std::invalid_argument("it is no JSON object of tokens and their numbers");
  std::vector<std::int32_t> numbers;
  std::vector<const std::string*> taken(tokens.size());
  for (const std::string& token : tokens) {
    const auto found = given.find(token);
    if (found == given.end())
      throw std::invalid_argument("it lacks the token " + shown_token(token) + " of the merges");
    if (!found->is_number_unsigned() || found->get<std::uint64_t>() >= tokens.size()) {
      throw std::invalid_argument("the number of " + shown_token(token) + " is " +
                                  runner::printable_ascii(found->dump()) + ", and the " +
                                  std::to_string(tokens.size()) + " tokens have those from 0");
    }
    const auto number = found->get<std::size_t>();
    if (taken[number])
      throw std::invalid_argument(shown_token(token) + " has the number of " + shown_token(*taken[number]));
    taken[number] = &token;
    numbers.push_back(static_cast<std::int32_t>(number));
  }
  if (given.size() > tokens.size()) {
    const std::unordered_set<std::string_view> known(tokens.begin(), tokens.end());
    for (const auto& [token, number] : given.items()) {
      if (!known.contains(token))
        throw std::invalid_argument("it has the token " + shown_token(token) + ", which no merge makes");
    }
  }
  return numbers;
}

/// What every token stands for, by its number.
std::vector<std::string> texts_of_tokens(const Vocabulary& vocabulary) {
  std::vector<std::string> texts(static_cast<std::size_t>(vocabulary.size));
  const auto text = [&](std::int32_t token) -> std::string& { return texts[static_cast<std::size_t>(token)]; };
  const std::vector<unsigned char> order = bytes_in_order();
  for (std::size_t place = 0; place < order.size(); ++place) {
    text(vocabulary.bytes.within[order[place]]) = symbol(order[place], place);
    text(vocabulary.bytes.at_end[order[place]]) = symbol(order[place], place) + std::string(kPieceEnd);
  }
  for (const BytePair& pair : vocabulary.pairs) text(pair.joined) = text(pair.left) + text(pair.right);
  text(vocabulary.start) = kStartToken;
  text(vocabulary.end) = kEndToken;
  return texts;
}

}  // namespace

std::string merges_text(const Vocabulary& vocabulary) {
  const std::vector<std::string> texts = texts_of_tokens(vocabulary);
  std::string result = "#version: 0.2\n";
  for (const BytePair& pair : vocabulary.pairs)
    result += texts[static_cast<std::size_t>(pair.left)] + " " + texts[static_cast<std::size_t>(pair.right)] + "\n";
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
  const auto renumber = [&](std::int32_t& token) { token = numbers[static_cast<std::size_t>(token)]; };
  for (auto* bytes : {&vocabulary.bytes.within, &vocabulary.bytes.at_end}) std::ranges::for_each(*bytes, renumber);
  for (BytePair& pair : vocabulary.pairs) {
    for (std::int32_t* token : {&pair.left, &pair.right, &pair.joined}) renumber(*token);
  }
  renumber(vocabulary.start);
  renumber(vocabulary.end);
  return vocabulary;
}

}  // namespace stages
