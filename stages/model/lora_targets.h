#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace runner {
class ConfigReader;
}

namespace stages {

/// Modules by name. A list selects modules whose name is an item or ends in '.' and an item. A
/// string selects those whose whole name matches it as an Expression.
using ModuleSelection = std::variant<std::vector<std::string>, std::string>;

/// The biases that are trained and saved with the adapters.
enum class LoraBias {
  kNone,
  kAll,
  kAdapted,  ///< those of layers with an adapter [lora_only]
};

/// How A is initialised. B is initialised with zeros, except for kRandom.
enum class LoraInitialization {
  kKaiming,   ///< uniform within 1/sqrt(inputs) [true]
  kGaussian,  ///< normal with the standard deviation 1/rank [gaussian]
  kRandom,    ///< as kKaiming, and B uniform within 1/sqrt(rank), so that the initial output
              ///< differs: tests [false]
};

/// The adapters of a network, by peft's names for modules. Where our option name differs from
/// peft's, peft's is in brackets.
struct LoraOptions {
  std::int64_t rank = 8;         ///< [r]
  double alpha = 8;              ///< [lora_alpha]
  bool rank_stabilized = false;  ///< scaling is alpha/sqrt(rank), not alpha/rank [use_rslora]
  double dropout = 0;            ///< of an adapter's input, in training [lora_dropout]
  ModuleSelection targets;       ///< [target_modules]
  ModuleSelection exclude;       ///< of the targets, those that get no adapter [exclude_modules]
  std::vector<std::int64_t> layers = {};  ///< numbers of blocks; empty: all [layers_to_transform]
  std::vector<std::string> layers_pattern =
      {};  ///< expressions for the part of a name before such a number
  /// Another rank or alpha for layers whose name, or its end after a dot, matches an expression;
  /// the first match counts.
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern = {};
  std::vector<std::pair<std::string, double>> alpha_pattern = {};
  LoraBias bias = LoraBias::kNone;
  LoraInitialization initialization = LoraInitialization::kKaiming;  ///< [init_lora_weights]
  std::vector<std::string> modules_to_save =
      {};  ///< modules trained and saved as a whole, without an adapter

  bool operator==(const LoraOptions&) const = default;
};

/// alpha/rank, or alpha/sqrt(rank).
double lora_scaling(const LoraOptions& options, std::int64_t rank, double alpha);

/// Reads the adapter options of model.lora. A faulty expression becomes an error of `reader` at its
/// option.
LoraOptions read_lora_options(runner::ConfigReader& reader);

/// A module that options may name.
struct TargetCandidate {
  std::string name;
  bool is_adaptable = false;  ///< a linear layer or patch embedding
};

/// A layer that gets an adapter.
struct LoraTarget {
  std::size_t index = 0;  ///< among the candidates
  std::int64_t rank = 0;
  double alpha = 0;
};

/// Whether a module is in the list, or inside one that is.
bool is_in_module(std::string_view name, const std::vector<std::string>& modules);

/// The layers that get an adapter by peft's rules, in the order of the candidates. Throws
/// runner::StageError, to be reported at targets, exclude or layers, if there are none or one of
/// them cannot have an adapter, and std::invalid_argument for an invalid expression.
std::vector<LoraTarget> select_targets(const LoraOptions& options,
                                       std::span<const TargetCandidate> candidates);

/// The items of targets that match no candidate; they have no effect.
std::vector<std::string> unused_targets(const LoraOptions& options,
                                        std::span<const TargetCandidate> candidates);

/// The expressions of rank_pattern and alpha_pattern that match none of the layers that get an
/// adapter.
std::vector<std::string> unused_patterns(const LoraOptions& options,
                                         std::span<const TargetCandidate> candidates,
                                         const std::vector<LoraTarget>& targets);

}  // namespace stages
