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

/// Selects modules by name. A list selects a module if its name is an item of the list or ends in
/// '.' followed by an item. A string is an Expression that must match the module's whole name.
using ModuleSelection = std::variant<std::vector<std::string>, std::string>;

/// The biases that are trained and saved with the adapters.
enum class LoraBias {
  kNone,
  kAll,
  kAdapted,  ///< only biases of layers with an adapter [lora_only]
};

/// How A is initialized. B is initialized with zeros, except for kPrincipal and kRandom.
enum class LoraInitialization {
  kKaiming,    ///< uniform within 1/sqrt(inputs) [true]
  kGaussian,   ///< normal with standard deviation 1/rank [gaussian]
  kPrincipal,  ///< A and B are the weight's largest singular values and vectors; their product is
               ///< subtracted from the weight [pissa]
  kRandom,  ///< like kKaiming, but B is uniform within 1/sqrt(rank), so the adapter has an effect
            ///< from the start; for tests [false]
};

/// The options for a network's adapters, using peft's names for modules. Where our name for an
/// option differs from peft's, peft's is in brackets.
struct LoraOptions {
  std::int64_t rank = 8;         ///< [r]
  double alpha = 8;              ///< [lora_alpha]
  bool rank_stabilized = false;  ///< scaling is alpha/sqrt(rank), not alpha/rank [use_rslora]
  bool dora = false;             ///< trains a norm for each output [use_dora]
  double dropout = 0;            ///< of an adapter's input, in training [lora_dropout]
  ModuleSelection targets;       ///< [target_modules]
  ModuleSelection exclude;       ///< targets that get no adapter [exclude_modules]
  std::vector<std::int64_t> layers = {};  ///< block numbers; empty: all [layers_to_transform]
  std::vector<std::string> layers_pattern =
      {};  ///< expressions for the part of a name before a block's number
  /// Sets a different rank or alpha for a layer if its name, or the end of its name after a dot,
  /// matches an expression; the first match wins.
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern = {};
  std::vector<std::pair<std::string, double>> alpha_pattern = {};
  LoraBias bias = LoraBias::kNone;
  LoraInitialization initialization = LoraInitialization::kKaiming;  ///< [init_lora_weights]
  std::vector<std::string> modules_to_save =
      {};  ///< modules trained and saved in full, without an adapter

  bool operator==(const LoraOptions&) const = default;
};

/// Returns alpha/rank, or alpha/sqrt(rank) if the options are rank-stabilized.
double lora_scaling(const LoraOptions& options, std::int64_t rank, double alpha);

/// Returns the initialization for a shrunken network, since its layers may have fewer singular
/// values than the rank.
LoraInitialization initialization_of_shrunken(const LoraOptions& options);

/// Reads the adapter options of model.lora. Reports invalid expressions as errors of `reader` at
/// their options.
LoraOptions read_lora_options(runner::ConfigReader& reader);

/// A module that options can select.
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

/// True if `modules` contains the module `name` or a module that contains it.
bool is_in_module(std::string_view name, const std::vector<std::string>& modules);

/// Returns the layers that get an adapter under peft's rules, in the order of the candidates.
/// Throws runner::StageError at `targets`, `exclude` or `layers` if there are none or one of them
/// cannot have an adapter, and std::invalid_argument for an invalid expression.
std::vector<LoraTarget> select_targets(const LoraOptions& options,
                                       std::span<const TargetCandidate> candidates);

/// Returns the items of options.targets that match no candidate and so have no effect.
std::vector<std::string> unused_targets(const LoraOptions& options,
                                        std::span<const TargetCandidate> candidates);

/// Returns the expressions of rank_pattern and alpha_pattern that match none of the layers that get
/// an adapter.
std::vector<std::string> unused_patterns(const LoraOptions& options,
                                         std::span<const TargetCandidate> candidates,
                                         const std::vector<LoraTarget>& targets);

}  // namespace stages
