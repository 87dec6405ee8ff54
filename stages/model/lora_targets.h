#pragma once

#include <span>
#include <string>
#include <vector>

#include "stages/model/lora_options.h"

namespace stages {

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

/// Is a module named, or inside one that is?
bool is_in_module(std::string_view name, const std::vector<std::string>& modules);

/// The layers that get an adapter by peft's rules, in the order of the candidates. Throws runner::StageError, to be
/// blamed on targets, exclude or layers, where there are none or one of them is no layer that can have an adapter, and
/// std::invalid_argument on an expression that is none.
std::vector<LoraTarget> select_targets(const LoraOptions& options, std::span<const TargetCandidate> candidates);

/// The items of targets that name no candidate; they have no effect.
std::vector<std::string> unused_targets(const LoraOptions& options, std::span<const TargetCandidate> candidates);

/// The expressions of rank_pattern and alpha_pattern that match none of the layers that get an adapter.
std::vector<std::string> unused_patterns(const LoraOptions& options, std::span<const TargetCandidate> candidates,
                                         const std::vector<LoraTarget>& targets);

}  // namespace stages
