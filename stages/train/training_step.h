#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/error/error_code.h"
#include "runner/stage/batch_cut.h"
#include "stages/random/dropout.h"
#include "stages/tensor/batch.h"

namespace torch::nn {
class Module;
}

namespace stages {

using Coupling = runner::LossCoupling;

struct LossTerm {
  std::string name;  ///< shown as train/<name>
  Coupling coupling;
};

/// Why a batch cannot be trained on, and the first unit of which that is true.
struct BadUnit {
  std::int64_t unit;
  runner::ErrorCode code;
  std::string message;  ///< "the label 7 is outside the 5 classes"
};

/// How one logical batch becomes a loss. Said once: the trainer runs it, the planner traces it, the certificate
/// compares it. It knows nothing of micro-batches, precision or devices.
class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  /// The terms whose sum is the loss, in the order in which loss() gives them.
  virtual std::vector<LossTerm> terms() const = 0;

  /// True if a layer's output for one row depends on other rows (train-mode BatchNorm). Then no cut is exact, unless
  /// all of the loss is over groups: encode() then runs such layers on one group after another.
  virtual bool mixes_samples() const = 0;

  /// Looks at a batch that is still on the host, where that costs nothing. What loss() could only crash on is found
  /// here.
  virtual std::optional<BadUnit> find_bad_unit(const Batch& /*batch*/) const { return {}; }

  /// What is learnt from in place of a batch, at one step: its samples mixed, say. A function of the batch and the key,
  /// before anything is cut into parts. Not asked in validation.
  virtual Batch prepare(const Batch& batch, const StepKey& /*key*/) const { return batch; }

  /// Named embeddings or logits of some units, rows first, in the order of the units; row counts may differ between
  /// inputs. A scalar (a learned temperature) is the same for all units. What goes through the network for an input is
  /// named by a ScopedInput, where there are several. Pure but for counter-based randomness: called again to recompute.
  virtual NamedTensors encode(torch::nn::Module& network, const Batch& part) const = 0;

  /// One scalar a term, by the term's name: the sum over the samples or groups of `part`, or the coupled loss
  /// times the batch's weight. The trainer divides by weight(whole batch).
  virtual NamedTensors loss(const NamedTensors& encoded, const Batch& part) const = 0;

  /// The denominator of the mean: the number of units, or the sum of their weights. Asked while the batch is on the
  /// host.
  virtual double weight(const Batch& batch) const { return static_cast<double>(batch.units()); }

  /// Sums over the units to be reported besides the loss, by name and as their mean, e.g. {"accuracy": correct}.
  virtual NamedTensors score(const NamedTensors& /*encoded*/, const Batch& /*part*/) const { return {}; }
};

}  // namespace stages
