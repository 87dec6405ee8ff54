#include "stages/train/parameter_pattern.h"

#include <vector>

namespace stages {
namespace {

/// What a token of a pattern stands for.
enum class TokenKind { kCharacter, kWithinName, kAnything, kAnyModules };

struct Token {
  TokenKind kind;
  char character = 0;
};

std::vector<Token> tokens(std::string_view pattern) {
  std::vector<Token> result;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool begins_module = i == 0 || pattern[i - 1] == '.';
    if (begins_module && pattern.substr(i, 3) == "**.") {
      result.push_back({TokenKind::kAnyModules});
      i += 2;
    } else if (pattern.substr(i, 2) == "**") {
      result.push_back({TokenKind::kAnything});
      i += 1;
    } else if (pattern[i] == '*') {
      result.push_back({TokenKind::kWithinName});
    } else {
      result.push_back({TokenKind::kCharacter, pattern[i]});
    }
  }
  return result;
}

/// Where a pattern may stand: `at[i]` where token i comes next.
class Positions {
 public:
  explicit Positions(const std::vector<Token>& pattern) : pattern_(pattern), at_(pattern.size() + 1, false) {
    at_[0] = true;
    pass_over(/*begins_module=*/true);
  }
  bool at_end() const { return at_.back(); }
  void read(char character) {
    std::vector<bool> next(at_.size(), false);
    for (std::size_t i = 0; i < pattern_.size(); ++i) {
      if (!at_[i]) continue;
      const Token& token = pattern_[i];
      if (token.kind == TokenKind::kCharacter) next[i + 1] = next[i + 1] || token.character == character;
      else if (token.kind != TokenKind::kWithinName || character != '.') next[i] = true;
    }
    at_ = std::move(next);
    pass_over(character == '.');
  }

 private:
  /// A star may stand for nothing (more); "**." only where a module's name begins.
  void pass_over(bool begins_module) {
    for (std::size_t i = 0; i < pattern_.size(); ++i) {
      if (!at_[i] || pattern_[i].kind == TokenKind::kCharacter) continue;
      if (pattern_[i].kind != TokenKind::kAnyModules || begins_module) at_[i + 1] = true;
    }
  }

  const std::vector<Token>& pattern_;
  std::vector<bool> at_;
};

}  // namespace

bool matches_parameter(std::string_view name, std::string_view pattern) {
  const std::vector<Token> parts = tokens(pattern);
  Positions positions(parts);
  for (const char character : name) {
    if (character == '.' && positions.at_end()) return true;
    positions.read(character);
  }
  return positions.at_end();
}

}  // namespace stages
