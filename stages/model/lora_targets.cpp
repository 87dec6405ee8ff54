#include "stages/model/lora_targets.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/suggest.h"
#include "stages/text/expression.h"

namespace stages {
namespace {

using runner::ErrorCode;

void check_expression(runner::ConfigReader& reader, std::string_view key, const std::string& text) {
  try {
    const Expression compiled(text);
  } catch (const std::invalid_argument& error) {
    reader.fail(key, ErrorCode::kBadPattern,
                "'" + text + "' is not a regular expression: " + error.what(),
                "use Python's syntax, or write a list of names");
  }
}

ModuleSelection read_selection(runner::ConfigReader& reader, std::string_view key) {
  const runner::Value* value = reader.raw(key);
  if (value && value->text()) {
    check_expression(reader, key, *value->text());
    return *value->text();
  }
  std::vector<std::string> names;
  reader.read(key, names);
  return names;
}

/// Reads a mapping from expressions to numbers, in the order written.
template <typename T>
std::vector<std::pair<std::string, T>> read_patterns(runner::ConfigReader& reader,
                                                     std::string_view key) {
  std::vector<std::pair<std::string, T>> patterns;
  runner::ConfigReader& section = reader.section(key);
  const runner::Value* value = reader.raw(key);
  if (!value || !value->map()) return patterns;
  for (const runner::Entry& entry : *value->map()) {
    T number = 0;
    section.read(entry.key, number);
    check_expression(section, entry.key, entry.key);
    patterns.emplace_back(entry.key, number);
  }
  return patterns;
}

}  // namespace

double lora_scaling(const LoraOptions& options, std::int64_t rank, double alpha) {
  const auto width = static_cast<double>(rank);
  return alpha / (options.rank_stabilized ? std::sqrt(width) : width);
}

LoraInitialization initialization_of_shrunken(const LoraOptions& options) {
  return options.initialization == LoraInitialization::kPrincipal ? LoraInitialization::kKaiming
                                                                  : options.initialization;
}

LoraOptions read_lora_options(runner::ConfigReader& reader) {
  LoraOptions options;
  reader.read("rank", options.rank);
  reader.read("alpha", options.alpha);
  reader.read("rank_stabilized", options.rank_stabilized);
  reader.read("dora", options.dora);
  reader.read("dropout", options.dropout);
  options.targets = read_selection(reader, "targets");
  options.exclude = read_selection(reader, "exclude");
  std::optional<std::vector<std::int64_t>> layers;
  reader.read("layers", layers);
  std::optional<std::string> layers_pattern;
  reader.read("layers_pattern", layers_pattern);
  if (layers_pattern) check_expression(reader, "layers_pattern", *layers_pattern);
  if (layers) {
    options.layers = *layers;
    // Without a pattern, peft misses a number in the second part of a name, as in timm's
    // blocks.0.attn.
    options.layers_pattern = {layers_pattern.value_or("[^.]*")};
  }
  options.rank_pattern = read_patterns<std::int64_t>(reader, "rank_pattern");
  options.alpha_pattern = read_patterns<double>(reader, "alpha_pattern");
  reader.read("modules_to_save", options.modules_to_save);
  options.bias = runner::choice<LoraBias>(
      reader, "bias",
      {{"none", LoraBias::kNone}, {"all", LoraBias::kAll}, {"lora_only", LoraBias::kAdapted}});
  options.initialization =
      runner::choice<LoraInitialization>(reader, "initialization",
                                         {{"kaiming", LoraInitialization::kKaiming},
                                          {"gaussian", LoraInitialization::kGaussian},
                                          {"pissa", LoraInitialization::kPrincipal}});
  return options;
}

namespace {

using runner::ErrorCode;
using runner::StageError;

bool is_or_ends_with(std::string_view name, std::string_view item) {
  if (name.size() <= item.size()) return name == item;
  return name.ends_with(item) && name[name.size() - item.size() - 1] == '.';
}

/// A ModuleSelection that is compiled for matching.
class Selection {
 public:
  explicit Selection(const ModuleSelection& selection) {
    if (const auto* text = std::get_if<std::string>(&selection)) expression_.emplace(*text);
    else names_ = std::get<std::vector<std::string>>(selection);
  }
  bool names(std::string_view module) const {
    if (expression_) return expression_->matches(module);
    return std::ranges::any_of(
        names_, [&](const std::string& item) { return is_or_ends_with(module, item); });
  }

 private:
  std::vector<std::string> names_;
  std::optional<Expression> expression_;
};

/// The selected block numbers.
class Blocks {
 public:
  explicit Blocks(const LoraOptions& options) : numbers_(options.layers) {
    if (numbers_.empty()) return;
    // Captures the first number in the name that follows a match of the pattern.
    for (const std::string& pattern : options.layers_pattern)
      patterns_.emplace_back("(?:|.*?\\.)(?:" + pattern + ")\\.(?<idx>\\d+)\\..*");
    if (patterns_.empty()) patterns_.emplace_back(".*?\\.[^.]*\\.(?<idx>\\d+)\\..*");
  }
  bool have(std::string_view module) const {
    if (numbers_.empty()) return true;
    for (const Expression& pattern : patterns_) {
      const std::optional<std::string> found = pattern.capture(module);
      if (!found) continue;
      std::int64_t number = -1;
      const auto end = std::from_chars(found->data(), found->data() + found->size(), number);
      return end.ec == std::errc() && std::ranges::find(numbers_, number) != numbers_.end();
    }
    return false;
  }

 private:
  const std::vector<std::int64_t> numbers_;
  std::vector<Expression> patterns_;
};

/// Returns an expression that matches `pattern` against a whole name, or against its end after a
/// dot.
Expression end_of_name(const std::string& pattern) {
  return Expression("(?:.*\\.)?(?:" + pattern + ")");
}

/// The values that patterns assign to modules.
template <typename T>
class Patterns {
 public:
  explicit Patterns(const std::vector<std::pair<std::string, T>>& patterns) {
    for (const auto& [pattern, number] : patterns) {
      const Expression alone(pattern);  // rejects ")(", which would be valid inside end_of_name()
      patterns_.emplace_back(end_of_name(pattern), number);
    }
  }
  T of(std::string_view module, T otherwise) const {
    for (const auto& [pattern, number] : patterns_) {
      if (pattern.matches(module)) return number;
    }
    return otherwise;
  }

 private:
  std::vector<std::pair<Expression, T>> patterns_;
};

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

[[noreturn]] void fail_without_targets(const LoraOptions& options,
                                       std::span<const TargetCandidate> candidates) {
  std::vector<std::string> known;
  for (const TargetCandidate& candidate : candidates) {
    if (candidate.is_adaptable) known.push_back(candidate.name);
  }
  if (const auto* expression = std::get_if<std::string>(&options.targets)) {
    throw StageError(ErrorCode::kOptionConflict,
                     "the expression '" + *expression + "' matches no layer's full name")
        .at("/targets")
        .with_help(known.empty() ? "" : "the first layer is called '" + known.front() + "'");
  }
  const auto& names = std::get<std::vector<std::string>>(options.targets);
  std::vector<std::string> ends;
  for (const std::string& name : known) {
    std::string end = name.substr(name.rfind('.') + 1);
    if (std::ranges::find(ends, end) == ends.end()) ends.push_back(std::move(end));
  }
  std::string help = names.empty() ? "" : runner::did_you_mean(names.front(), ends);
  if (help.empty() && !names.empty()) help = runner::did_you_mean(names.front(), known);
  if (help.empty() && !known.empty()) help = "this backbone has " + quoted(ends);
  throw StageError(ErrorCode::kOptionConflict, "no layer is called " + quoted(names))
      .at("/targets")
      .with_help(help);
}

}  // namespace

bool is_in_module(std::string_view name, const std::vector<std::string>& modules) {
  const std::string within = "." + std::string(name) + ".";
  return std::ranges::any_of(modules, [&](const std::string& module) {
    return within.find("." + module + ".") != within.npos;
  });
}

std::vector<LoraTarget> select_targets(const LoraOptions& options,
                                       std::span<const TargetCandidate> candidates) {
  const Selection targets(options.targets), exclude(options.exclude);
  const Blocks blocks(options);
  const Patterns ranks(options.rank_pattern);
  const Patterns alphas(options.alpha_pattern);

  std::vector<LoraTarget> chosen;
  std::size_t named = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::string& name = candidates[i].name;
    if (!targets.names(name)) continue;
    ++named;
    if (exclude.names(name) || is_in_module(name, options.modules_to_save) || !blocks.have(name))
      continue;
    if (!candidates[i].is_adaptable) {
      throw StageError(
          ErrorCode::kOptionConflict,
          "'" + name +
              "' cannot have an adapter: it is neither a linear layer nor a patch embedding")
          .at("/targets")
          .with_help("add it to 'exclude', or narrow 'targets'");
    }
    chosen.push_back({i, ranks.of(name, options.rank), alphas.of(name, options.alpha)});
  }
  if (named == 0) fail_without_targets(options, candidates);
  if (chosen.empty()) {
    throw StageError(ErrorCode::kOptionConflict,
                     "'targets' matches " + std::to_string(named) +
                         " layers, but 'exclude', 'layers' and 'modules_to_save' " +
                         "leave none of them")
        .at("/targets")
        .with_help("for a model without adapters, use 'kind: model.linear_probe'");
  }
  return chosen;
}

std::vector<std::string> unused_targets(const LoraOptions& options,
                                        std::span<const TargetCandidate> candidates) {
  std::vector<std::string> unused;
  if (std::holds_alternative<std::string>(options.targets)) return unused;
  for (const std::string& item : std::get<std::vector<std::string>>(options.targets)) {
    const auto is_named = [&](const TargetCandidate& candidate) {
      return is_or_ends_with(candidate.name, item);
    };
    if (std::ranges::none_of(candidates, is_named)) unused.push_back(item);
  }
  return unused;
}

std::vector<std::string> unused_patterns(const LoraOptions& options,
                                         std::span<const TargetCandidate> candidates,
                                         const std::vector<LoraTarget>& targets) {
  std::vector<std::string> unused;
  const auto look_at = [&](const std::string& pattern) {
    const Expression expression = end_of_name(pattern);
    const auto is_matched = [&](const LoraTarget& target) {
      return expression.matches(candidates[target.index].name);
    };
    if (std::ranges::none_of(targets, is_matched)) unused.push_back(pattern);
  };
  for (const auto& [pattern, rank] : options.rank_pattern) look_at(pattern);
  for (const auto& [pattern, alpha] : options.alpha_pattern) look_at(pattern);
  return unused;
}

}  // namespace stages
