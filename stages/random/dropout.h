#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "stages/random/dropout_mask.h"

namespace stages {

/// What all random numbers of one optimizer step are a function of.
struct StepKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;  ///< 0 to 2^32 - 1
};

/// What dropout knows the rows of an encoding by, 0 to 2^32 - 1, one per row: by the name of the
/// input that they are of, and under "" those of every input that has no entry of its own.
using RowNames = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

/// In training drops units of its input with a probability and multiplies what it keeps by 1 / (1 -
/// probability): dropout (Srivastava et al. 2014) of elements; stochastic depth (Huang et al. 2016,
/// arXiv:1603.09382) of samples, where it follows a residual branch. Otherwise the identity.
///
/// The mask is a function of the step and the samples that a ScopedDropout names, and of the
/// layer's place in its network (stages/random/dropout_mask.h). Nothing but these names is kept for
/// the backward, which makes the mask again.
class Dropout : public torch::nn::Module {
 public:
  explicit Dropout(double probability, DropoutUnit unit = DropoutUnit::kElement);

  /// `x` has a row for each name of the scope. Throws std::logic_error in training where no scope
  /// names the rows, and std::invalid_argument on another number of rows.
  at::Tensor forward(const at::Tensor& x) const;
  /// True if forward() is not the identity.
  bool is_active() const { return probability_ > 0 && is_training(); }

 private:
  friend class DropoutNames;
  friend class ScopedDropout;
  friend class ScopedInput;
  /// What a ScopedDropout says to all layers.
  struct Scope {
    StepKey key;
    std::map<std::string, at::Tensor, std::less<>> rows;
  };
  struct Names {
    std::shared_ptr<const Scope> scope;
    std::uint32_t layer = 0;
    std::uint64_t seed = 0;  // the scope's, changed by the input's name
    at::Tensor samples;      // undefined: no input has been named, and needs to be
  };
  using Saved = std::vector<std::pair<Dropout*, std::optional<Names>>>;
  static Saved names_of(torch::nn::Module& module);
  static void restore(Saved& saved);

  const double probability_;
  const DropoutUnit unit_;
  std::optional<Names> names_;  // set by the innermost scope
};

/// What the dropout layers of a module go by at the moment, to run it once more later under the
/// same names:
///
///   const DropoutNames names(block);  // in the forward
///   const ScopedDropout again(names);  // in the backward, around the recomputation
class DropoutNames {
 public:
  /// The module must outlive it and keep its modules.
  explicit DropoutNames(torch::nn::Module& module) : names_(Dropout::names_of(module)) {}

 private:
  friend class ScopedDropout;
  Dropout::Saved names_;
};

/// Tells all dropout layers of a network what step it is and which samples its rows are, for as
/// long as they go forward and backward; a layer's number is its place among them. Take the same
/// network each time, and a part of it never:
///
///   const ScopedDropout dropout(network, {seed, step}, part.indices);
///   step.encode(network, part);  // and its backward
///
/// A second pass or a recomputation under the same names sees the same masks, and so does any other
/// cut of the batch. A sample that is in a batch twice has one mask. The network must outlive the
/// scope and keep its modules.
class [[nodiscard]] ScopedDropout {
 public:
  /// Throws std::invalid_argument on names or steps of more than 32 bits.
  ScopedDropout(torch::nn::Module& network, const StepKey& key, const RowNames& rows);
  /// `samples`: positions in the dataset, of the rows of every input.
  ScopedDropout(torch::nn::Module& network, const StepKey& key,
                const std::vector<std::int64_t>& samples);
  explicit ScopedDropout(const DropoutNames& names);
  ~ScopedDropout();
  ScopedDropout(const ScopedDropout&) = delete;
  ScopedDropout& operator=(const ScopedDropout&) = delete;

 private:
  Dropout::Saved before_;
};

/// Within a ScopedDropout: what goes through the network now are the rows of the input `name`. Each
/// name has masks of its own, so two views of a sample are dropped apart. Where a batch is divided
/// into groups, its inputs have other rows each, and every one must be named by it. In evaluation
/// it does nothing.
///
///   NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
///     const auto embed = [&](const char* name) {
///       const ScopedInput input(network, name);
///       return model.forward(network, {{"image", part[name]}}).at("features");
///     };
///     return {{"support", embed("support")}, {"query", embed("query")}};
class [[nodiscard]] ScopedInput {
 public:
  /// Throws std::logic_error where the rows of that input have no names.
  ScopedInput(torch::nn::Module& network, std::string_view name);
  ~ScopedInput();
  ScopedInput(const ScopedInput&) = delete;
  ScopedInput& operator=(const ScopedInput&) = delete;

 private:
  Dropout::Saved before_;
};

}  // namespace stages
