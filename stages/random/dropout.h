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

#include "stages/random/apply_dropout.h"
#include "stages/random/dropout_mask.h"

namespace stages {

/// The key that determines all random numbers of one optimizer step.
struct StepKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;  ///< 0 to 2^32 - 1
};

/// Numbers by which dropout identifies the rows of an encoding, one per row, from 0 to 2^32 - 1.
/// Each key is the name of the input that the rows belong to; the entry "" applies to all inputs
/// without an entry of their own.
using RowNames = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

/// In training, drops units of its input with a given probability and multiplies the kept units by
/// 1 / (1 - probability): dropout of elements (Srivastava et al. 2014), or stochastic depth (Huang
/// et al. 2016, arXiv:1603.09382) of samples if it follows a residual branch. In eval mode it is
/// the identity.
///
/// The mask depends only on the step and samples passed to a ScopedDropout and on the layer's
/// position in its network (stages/random/dropout_mask.h). Only these are saved for the backward
/// pass, which recomputes the mask from them. Step and samples are in the device's memory
/// (DropoutRows), where a CUDA graph finds those of each replay.
class Dropout : public torch::nn::Module {
 public:
  explicit Dropout(double probability, DropoutUnit unit = DropoutUnit::kElement);

  /// `x` has one row per name in the scope. In training, throws std::logic_error if no scope names
  /// the rows, and std::invalid_argument if the number of rows differs. If `probability` is given,
  /// units are dropped with that probability, provided that the layer's own is not 0.
  at::Tensor forward(const at::Tensor& x, std::optional<double> probability = {}) const;
  /// Returns a scalar for the rows of all samples, to drop them all or none: 0 with the layer's
  /// probability, and otherwise 1 / (1 - probability). It depends only on the step and the layer's
  /// position. Throws like forward().
  at::Tensor factor_of_all(const at::TensorOptions& options) const;
  /// True if forward() is not the identity.
  bool is_active() const { return probability_ > 0 && is_training(); }
  /// Returns the number of rows named by the scope; 0 if there is no scope or an input must be
  /// named first.
  std::int64_t rows() const;
  /// Returns a number that depends only on the step, the row names and the layer's position, for
  /// code on the host that draws random numbers itself; nullopt if no scope names the rows.
  std::optional<std::uint64_t> drawing_seed() const;

 private:
  friend class DropoutNames;
  friend class ScopedDropout;
  friend class ScopedInput;
  /// The names of an input's rows.
  struct Rows {
    explicit Rows(at::Tensor numbers, std::uint64_t digest = 0);
    at::Tensor numbers;        // (1 + rows): the step, then the samples
    DropoutRows on_device;     // views of the numbers
    std::uint64_t digest = 0;  // of the samples
  };
  /// The values that a ScopedDropout passes to all layers.
  struct Scope {
    StepKey key;
    std::map<std::string, Rows, std::less<>> inputs;
    /// Null if the rows have no names.
    const Rows* rows_of(std::string_view input) const;
  };
  struct Names {
    std::shared_ptr<const Scope> scope;
    std::uint32_t layer = 0;
    std::uint64_t seed = 0;  // the seed of the scope, modified by the input's name
    std::string input;
  };
  const Rows* named_rows() const;
  DropoutMask mask(double probability, DropoutUnit unit) const;
  const DropoutRows& rows_on_device() const;
  using Saved = std::vector<std::pair<Dropout*, std::optional<Names>>>;
  static Saved names_of(torch::nn::Module& module);
  static void restore(Saved& saved);

  const double probability_;
  const DropoutUnit unit_;
  std::optional<Names> names_;  // set by the innermost scope
};

/// The current row names of a module's dropout layers, for running the module again later under the
/// same names:
///
///   const DropoutNames names(block);  // in the forward pass
///   const ScopedDropout again(names);  // in the backward pass, around the recomputation
///
/// Or for work on a GPU that is recorded once and replayed for other steps (StepGraph): it reads
/// step and samples where they were when it was recorded.
///
///   const DropoutNames recorded(network);       // when it is recorded
///   recorded.copy_from(DropoutNames(network));  // in a later scope, before it is replayed
class DropoutNames {
 public:
  /// `module` must outlive this object and keep its submodules.
  explicit DropoutNames(torch::nn::Module& module) : names_(Dropout::names_of(module)) {}

  /// Replaces the step and the samples in the device's memory. `other` names the same inputs of the
  /// same module and as many rows. drawing_seed(), which is for the host, does not change.
  void copy_from(const DropoutNames& other) const;

 private:
  friend class ScopedDropout;
  Dropout::Saved names_;
};

/// Sets the step and the rows' samples for all dropout layers of a network, for its forward and
/// backward passes. A layer's number is its position in the network, so always pass the same
/// network, never a part of it:
///
///   const ScopedDropout dropout(network, {seed, step}, part.indices);
///   step.encode(network, part);  // and its backward pass
///
/// A second pass or a recomputation under the same names uses the same masks, no matter how the
/// batch is split. A sample that occurs twice in a batch gets the same mask both times. The network
/// must outlive the scope and keep its submodules.
class [[nodiscard]] ScopedDropout {
 public:
  /// Throws std::invalid_argument if a row name or the step does not fit into 32 bits.
  ScopedDropout(torch::nn::Module& network, const StepKey& key, const RowNames& rows);
  /// `samples` are positions in the dataset, for the rows of all inputs.
  ScopedDropout(torch::nn::Module& network, const StepKey& key,
                const std::vector<std::int64_t>& samples);
  explicit ScopedDropout(const DropoutNames& names);
  ~ScopedDropout();
  ScopedDropout(const ScopedDropout&) = delete;
  ScopedDropout& operator=(const ScopedDropout&) = delete;

 private:
  Dropout::Saved before_;
};

/// Within a ScopedDropout, declares that the rows now passing through the network belong to the
/// input `name`. Each name has its own masks, so dropout treats two views of a sample
/// independently. If a batch is divided into groups, its inputs have different rows, so each must
/// be named this way. Without a ScopedDropout, as in evaluation, it does nothing.
///
///   NamedTensors encode(torch::nn::Module& network, const Batch& part) const override {
///     const auto embed = [&](const char* name) {
///       const ScopedInput input(network, name);
///       return model.forward(network, {{"image", part[name]}}).at("features");
///     };
///     return {{"support", embed("support")}, {"query", embed("query")}};
///   }
class [[nodiscard]] ScopedInput {
 public:
  /// Throws std::logic_error if the rows of the input have no names.
  ScopedInput(torch::nn::Module& network, std::string_view name);
  ~ScopedInput();
  ScopedInput(const ScopedInput&) = delete;
  ScopedInput& operator=(const ScopedInput&) = delete;

 private:
  Dropout::Saved before_;
};

}  // namespace stages
