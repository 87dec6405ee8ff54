#include "stages/text/byte_pairs.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <tuple>

namespace stages {
namespace {

constexpr std::int32_t kJoinedToTheLeft = -1;  // no token any more
constexpr std::size_t kNoSymbol = static_cast<std::size_t>(-1);

struct Symbol {
  std::int32_t token = 0;
  std::size_t before = kNoSymbol, after = kNoSymbol;
};

/// Two neighbours that may be joined. The first in the order of rules goes first, of the same the leftmost.
struct Joint {
  std::int32_t rank = 0;
  std::size_t left = 0;
  std::int32_t joined = 0;
  std::int32_t tokens[2] = {};  // what they were when it was found
  bool operator>(const Joint& other) const { return std::tie(rank, left) > std::tie(other.rank, other.left); }
};

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

BytePairs::BytePairs(const ByteTokens& bytes, const std::vector<BytePair>& pairs) : bytes_(bytes) {
  rules_.reserve(pairs.size());
  for (const BytePair& pair : pairs)
    rules_.push_back({pair_of(pair.left, pair.right), static_cast<std::int32_t>(rules_.size()), pair.joined});
  std::ranges::sort(rules_, {}, &Rule::pair);
}

std::vector<BytePair> BytePairs::pairs() const {
  std::vector<BytePair> pairs(rules_.size());
  for (const Rule& rule : rules_) {
    pairs[static_cast<std::size_t>(rule.rank)] = {static_cast<std::int32_t>(rule.pair >> 32),
                                                  static_cast<std::int32_t>(rule.pair & 0xffffffff), rule.joined};
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
    symbols[i].token = (is_last ? bytes_.at_end : bytes_.within)[static_cast<unsigned char>(piece[i])];
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

}  // namespace stages
