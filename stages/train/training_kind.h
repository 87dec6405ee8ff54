#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/error/error_code.h"
#include "runner/shared/stage/batch_cut.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/model.h"
#include "stages/random/dropout.h"
#include "stages/tensor/batch.h"
#include "stages/train/trainer_options.h"

namespace runner {
class ConfigReader;
}

namespace torch::nn {
class Module;
}

namespace stages {

class MemoryPolicy;

// What a kind of training brings, beside its schema: how a batch becomes a loss, and a function
// that makes its stage.

using Coupling = runner::LossCoupling;

struct LossTerm {
  std::string name;  ///< shown as train/<name>
  Coupling coupling;
  bool has_forms = false;  ///< of which the policy's loss_form chooses
  std::int64_t samples_in_group =
      0;  ///< where a loss over groups takes so many samples after another for one
};

/// Why a batch cannot be trained on, and the first unit of which that is true.
struct BadUnit {
  std::int64_t unit;
  runner::ErrorCode code;
  std::string message;  ///< "the label 7 is outside the 5 classes"
};

/// What a batch is for.
enum class BatchUse { kTraining, kValidation };

/// How one logical batch becomes a loss. Said once: the trainer runs it, the planner traces it, the
/// certificate compares it. It knows nothing of micro-batches, precision or devices. Who calls it:
/// refuse_bad_unit() (step_error.cpp) looks at a batch, StepExecution (step_execution.cpp)
/// arranges, weighs and prepares it, and constrains the network after the step; Accumulation
/// (gradient.cpp) encodes its parts and takes loss and scores; in a validation measure()
/// (validation.cpp) does all of it. TrainingStage shows the notes.
class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  /// The terms whose sum is the loss, in the order in which loss() gives them.
  virtual std::vector<LossTerm> terms() const = 0;

  /// True if a layer's output for one row depends on other rows (train-mode BatchNorm). Then no cut
  /// is exact, unless all of the loss is over groups: encode() then runs such layers on one group
  /// after another.
  virtual bool mixes_samples() const = 0;

  /// A text for all that a dry run of the step depends on beside its model and the shapes of its
  /// data: two steps that give the same one go through the same operations on tensors of the same
  /// sizes, whatever their numbers. nullopt: that cannot be told.
  virtual std::optional<std::string> structure() const { return {}; }

  /// Looks at a batch that is still on the host, where that costs nothing. What loss() could only
  /// crash on is found here.
  virtual std::optional<BadUnit> find_bad_unit(const Batch& /*batch*/) const { return {}; }

  /// What is computed with in place of a batch of a dataset, which is still on the host: texts as
  /// the tokens that a network reads, each once, say. It has as many units. On the Meta device it
  /// is as large as it may become.
  virtual Batch arrange(const Batch& batch, BatchUse /*use*/) const { return batch; }

  /// What is learnt from in place of a batch, at one step: its samples mixed, say. A function of
  /// the batch and the key, before anything is cut into parts. Not asked in validation.
  virtual Batch prepare(const Batch& batch, const StepKey& /*key*/) const { return batch; }

  /// Named embeddings or logits of some units, rows first, in the order of the units; row counts
  /// may differ between inputs. A scalar (a learned temperature) is the same for all units. What
  /// goes through the network for an input is named by a ScopedInput, where there are several. Pure
  /// but for counter-based randomness: called again to recompute.
  virtual NamedTensors encode(torch::nn::Module& network, const Batch& part) const = 0;

  /// One scalar a term, by the term's name: the sum over the samples or groups of `part`, or the
  /// coupled loss times the batch's weight. The trainer divides by weight(whole batch).
  virtual NamedTensors loss(const NamedTensors& encoded, const Batch& part) const = 0;

  /// Lines for the person who watches, about what the training will do.
  virtual std::vector<std::string> notes() const { return {}; }

  /// The denominator of the mean: the number of units, or the sum of their weights. Asked while the
  /// batch is on the host.
  virtual double weight(const Batch& batch) const { return static_cast<double>(batch.units()); }

  /// Sums over the units to be reported besides the loss, by name, e.g. {"accuracy": correct}; each
  /// is divided by scored().
  virtual NamedTensors score(const NamedTensors& /*encoded*/, const Batch& /*part*/) const {
    return {};
  }

  /// What the scores of a batch count among: its units, or what these are made of. A score is then
  /// a share of counts, which is the same whatever the batch is cut into.
  virtual std::int64_t scored(const Batch& batch) const { return batch.units(); }

  /// Of each unit of a validation what scores_of_all() looks at once all of them are there, rows
  /// first, without a graph. Undefined: nothing.
  virtual at::Tensor kept_in_validation(const NamedTensors& /*encoded*/,
                                        const Batch& /*part*/) const {
    return {};
  }
  /// Scores that are no sum over units, such as the area under a curve: of all rows that were kept,
  /// on the CPU.
  virtual std::vector<std::pair<std::string, double>> scores_of_all(
      const at::Tensor& /*kept*/) const {
    return {};
  }

  /// Puts back a weight that an optimizer step has moved out of the range that it must be in. It
  /// allocates nothing.
  virtual void constrain(torch::nn::Module& /*network*/) const {}
};

/// What is learnt from, and what is measured on after an epoch; `validation` may be null.
struct TrainingData {
  std::shared_ptr<const Dataset> train, validation;
};

/// What one kind of training brings beside its schema; its own options are in its functions.
struct TrainingKind {
  /// What is gone through in place of the data that is wired in: as many samples of each class, or
  /// episodes. `seed` is the node's. Throws runner::StageError where the data do not suit it. Null:
  /// the data itself.
  std::function<TrainingData(TrainingData data, std::uint64_t seed)> draw = {};
  /// The step that is trained, of a model that runs on such data; both outlive it. Throws
  /// runner::StageError where the model or the data do not suit the kind: that is the place of its
  /// checks, and the first thing that is done. `data` as `draw` gives it.
  std::function<std::unique_ptr<TrainingStep>(const Model& model, const TrainingData& data,
                                              const MemoryPolicy& policy)>
      make_step;
  /// The scores of the step that the option `monitor` may name beside "loss". More of them is
  /// better.
  std::vector<std::string_view> scores = {};
  /// Of its models, those with a factor of the learning rate.
  std::vector<NetworkPart> parts = {{"head", {"head", "classifier"}}, {"backbone", {"**"}}};
  /// The part that is trained alone at first.
  PartTrainedFirst trained_first = {};
  /// What the kind calls the number of units of a step.
  std::string_view batch_option = "batch_size";
  /// The accuracy on the validation data at which a training has learnt enough and stops; nullopt:
  /// none.
  std::optional<double> enough_accuracy = {};
  /// The network is let go once it is trained, and whoever wants it reads it from its checkpoint:
  /// of many trainings of a run no two networks are in memory at once.
  bool lets_network_go = false;
};

/// The stage of a kind of training. All of them plan, certify, train, accumulate, warm-start,
/// resume, validate and take over what an earlier run has trained in this one way. Their ports are
/// train, validation (optional), model and memory; out comes a checkpoint.
///
///   runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
///     double margin = 0;
///     reader.read("margin", margin);
///     return make_training_stage(reader, {.make_step = [margin](const Model& model, const auto&,
///     const auto&) {
///       return std::make_unique<MarginStep>(model, margin);
///     }});
///   }
///
/// After the kind's own options it reads those that all kinds have: the schema of train.supervised
/// says what they mean, and those of other kinds refer to it.
runner::Result<std::unique_ptr<runner::Stage>> make_training_stage(runner::ConfigReader& reader,
                                                                   TrainingKind kind);

}  // namespace stages
