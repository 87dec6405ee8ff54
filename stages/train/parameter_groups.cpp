#include "stages/train/parameter_groups.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include <torch/nn/module.h>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/suggest.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

ParameterGroupOptions read_group(runner::ConfigReader& reader, std::size_t index) {
  ParameterGroupOptions group;
  std::optional<std::string> name;
  reader.read("name", name);
  const runner::Value* match = reader.raw("match");
  if (match && match->text()) group.match = {*match->text()};
  else reader.read("match", group.match);
  reader.read("learning_rate", group.learning_rate);
  reader.read("learning_rate_factor", group.learning_rate_factor);
  reader.read("weight_decay", group.weight_decay);
  reader.read("frozen", group.frozen);
  const runner::Value* freeze_until = reader.raw("freeze_until");
  if (freeze_until && !freeze_until->is_null()) {
    std::int64_t epoch = 1;
    reader.section("freeze_until").read("epoch", epoch);
    group.frozen_epochs = epoch - 1;
  }
  group.name = name.value_or(std::to_string(index));
  group.place = "/parameter_groups/" + std::to_string(index) + "/match";
  return group;
}

/// Creates groups from the learning rate factors of parts. Returns none if all factors are 1.
std::vector<ParameterGroupOptions> read_factors(runner::ConfigReader& reader,
                                                const std::vector<NetworkPart>& parts) {
  std::vector<ParameterGroupOptions> groups;
  for (const NetworkPart& part : parts) {
    double factor = 1;
    reader.read(part.name, factor);
    ParameterGroupOptions& group = groups.emplace_back();
    group.name = part.name;
    group.match.assign(part.match.begin(), part.match.end());
    group.learning_rate_factor = factor;
    group.frozen = factor == 0;
    group.is_part = true;
    group.place = "/learning_rate_factors/" + group.name;
    group.may_be_empty = factor == 1;
  }
  const auto changes_nothing = [](const ParameterGroupOptions& group) {
    return group.learning_rate_factor == 1;
  };
  if (std::ranges::all_of(groups, changes_nothing)) groups.clear();
  return groups;
}

/// Returns the names of all parameters and of the modules that contain them.
std::vector<std::string> known_names(const std::vector<NamedTensors::Item>& parameters) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const auto& [name, tensor] : parameters) {
    for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
      if (seen.insert(name.substr(0, dot)).second) names.push_back(name.substr(0, dot));
    }
    names.push_back(name);
  }
  return names;
}

/// True if one factor applies to all parameters outside the other parts. It would then also apply
/// to a part that has a different name in the network.
bool names_the_rest(const std::vector<ParameterGroupOptions>& groups) {
  return std::ranges::any_of(groups, [](const ParameterGroupOptions& group) {
    return group.place.starts_with("/learning_rate_factors/") &&
           std::ranges::count(group.match, "**") > 0;
  });
}

/// Suggests what to write instead of a pattern that matches nothing.
std::string advice_for(const ParameterGroupOptions& group, const std::string& pattern,
                       const std::vector<std::string>& known) {
  std::string advice = runner::did_you_mean_path(pattern, known);
  if (!advice.empty() || !group.is_part) return advice;
  return "this network uses different names: set the part's learning rate in parameter_groups";
}

/// Returns "bakbone" for "bakbone.**".
std::string without_stars(std::string pattern) {
  while (pattern.ends_with(".*") || pattern.ends_with(".**")) pattern.resize(pattern.rfind('.'));
  return pattern;
}

/// Returns the patterns that must match. For a part: only the patterns that do match, or the first
/// one if none does.
std::vector<std::string> patterns_of(const ParameterGroupOptions& group,
                                     const std::vector<NamedTensors::Item>& all) {
  if (!group.is_part) return group.match;
  std::vector<std::string> matching;
  std::ranges::copy_if(group.match, std::back_inserter(matching), [&](const std::string& pattern) {
    return std::ranges::any_of(all, [&](const NamedTensors::Item& item) {
      return matches_parameter(item.first, pattern);
    });
  });
  return matching.empty() ? std::vector<std::string>{group.match.front()} : matching;
}

}  // namespace

OptimizerOptions of_group(OptimizerOptions optimizer, const ParameterGroupOptions& group) {
  std::visit(
      [&](auto& one) {
        one.learning_rate = group.learning_rate.value_or(one.learning_rate *
                                                         group.learning_rate_factor.value_or(1));
        one.weight_decay = group.weight_decay.value_or(one.weight_decay);
      },
      optimizer);
  return optimizer;
}

std::vector<ParameterGroupOptions> read_parameter_groups(runner::ConfigReader& reader,
                                                         const std::vector<NetworkPart>& parts) {
  std::vector<ParameterGroupOptions> groups =
      read_factors(reader.section("learning_rate_factors"), parts);
  std::set<std::string> names;
  std::size_t index = 0;
  for (runner::ConfigReader* const one : reader.sections("parameter_groups")) {
    const ParameterGroupOptions& group = groups.emplace_back(read_group(*one, index++));
    if (!names.insert(group.name).second) {
      one->fail("name", ErrorCode::kOptionConflict, "two groups have the name '" + group.name + "'",
                "give each its own name");
    }
  }
  return groups;
}

std::vector<ParameterGroup> divide_parameters(torch::nn::Module& network,
                                              const OptimizerOptions& optimizer,
                                              const std::vector<ParameterGroupOptions>& groups) {
  std::vector<NamedTensors::Item> left;
  for (const auto& item : network.named_parameters()) left.emplace_back(item.key(), item.value());
  const std::vector<NamedTensors::Item> all = left;

  std::vector<std::vector<NamedTensors::Item>> members(groups.size());
  runner::FoundErrors found;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::vector<NamedTensors::Item> before = left;
    for (const std::string& pattern : patterns_of(groups[i], all)) {
      const auto matches = [&](const NamedTensors::Item& item) {
        return matches_parameter(item.first, pattern);
      };
      if (std::ranges::none_of(all, matches)) {
        if (groups[i].may_be_empty && !names_the_rest(groups)) continue;
        found.add(StageError(ErrorCode::kOptionConflict,
                             "the pattern '" + pattern + "' matches no parameter of the model")
                      .at(groups[i].place)
                      .with_help(advice_for(groups[i], without_stars(pattern), known_names(all))));
        continue;
      }
      if (std::ranges::none_of(before, matches) && !groups[i].may_be_empty) {
        found.add(
            StageError(ErrorCode::kOptionConflict,
                       "earlier groups match everything that the pattern '" + pattern + "' matches")
                .at(groups[i].place)
                .with_help(
                    "a parameter belongs to the first group that matches it: move this group up"));
        continue;
      }
      std::ranges::copy_if(left, std::back_inserter(members[i]), matches);
      std::erase_if(left, matches);
    }
  }
  found.throw_any();

  std::vector<ParameterGroup> result;
  const auto add = [&](std::string name, OptimizerOptions options,
                       std::vector<NamedTensors::Item> parameters, std::int64_t frozen_epochs) {
    std::erase_if(parameters,
                  [](const NamedTensors::Item& item) { return !item.second.requires_grad(); });
    const bool is_empty = parameters.empty();
    if (!is_empty)
      result.push_back({std::move(name), std::move(options), NamedTensors(std::move(parameters)),
                        frozen_epochs});
    return !is_empty;
  };
  add("", optimizer, left, 0);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].frozen ||
        add(groups[i].name, of_group(optimizer, groups[i]), members[i], groups[i].frozen_epochs))
      continue;
    if (groups[i].may_be_empty) continue;
    throw StageError(ErrorCode::kOptionConflict,
                     "the model has no trainable parameters in this group")
        .at(groups[i].place)
        .with_help("leave the group out, or make the model train these parameters");
  }
  if (result.empty() && all.empty()) {
    throw StageError(ErrorCode::kOptionConflict,
                     "the network has no weights, so there is nothing to train")
        .with_help("choose a network with weights");
  }
  if (result.empty()) {
    throw StageError(ErrorCode::kOptionConflict,
                     "all parameters are frozen, so there is nothing to train")
        .at(groups.empty() ? "" : "/" + groups[0].place.substr(1, groups[0].place.find('/', 1) - 1))
        .with_help(groups.empty() ? "" : "freeze fewer parameters");
  }
  const auto is_late = [](const ParameterGroup& group) { return group.frozen_epochs > 0; };
  if (std::ranges::all_of(result, is_late)) {
    throw StageError(ErrorCode::kOptionConflict,
                     "freeze_until freezes all parameters in the first epoch, so there is nothing "
                     "to train")
        .at("/parameter_groups")
        .with_help("remove freeze_until from the group that should be trained first");
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!groups[i].frozen) continue;
    for (auto& [name, tensor] : members[i]) tensor.set_requires_grad(false);
  }
  return result;
}

namespace {

/// What a token of a pattern matches.
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

/// The positions reached in a pattern: `at_[i]` is true if token i may come next.
class Positions {
 public:
  explicit Positions(const std::vector<Token>& pattern)
      : pattern_(pattern), at_(pattern.size() + 1, false) {
    at_[0] = true;
    pass_over(/*begins_module=*/true);
  }
  bool at_end() const { return at_.back(); }
  void read(char character) {
    std::vector<bool> next(at_.size(), false);
    for (std::size_t i = 0; i < pattern_.size(); ++i) {
      if (!at_[i]) continue;
      const Token& token = pattern_[i];
      if (token.kind == TokenKind::kCharacter)
        next[i + 1] = next[i + 1] || token.character == character;
      else if (token.kind != TokenKind::kWithinName || character != '.') next[i] = true;
    }
    at_ = std::move(next);
    pass_over(character == '.');
  }

 private:
  /// Skips tokens that may match nothing, or nothing more: any star, but "**." only at the
  /// beginning of a module's name.
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
