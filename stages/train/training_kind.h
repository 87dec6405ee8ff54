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

// The definition of a kind of training, apart from its schema: how a batch becomes a loss, and a
// function that creates its stage.

using Coupling = runner::LossCoupling;

struct LossTerm {
  std::string name;  ///< logged as train/<name>
  Coupling coupling;
  bool has_forms = false;             ///< the policy's loss_form selects the form
  std::int64_t samples_in_group = 0;  ///< consecutive samples per group; 0: not computed over
                                      ///< groups
};

/// The reason why a batch cannot be used for training, and the first unit with that problem.
struct BadUnit {
  std::int64_t unit;
  runner::ErrorCode code;
  std::string message;  ///< "label 7 is outside the 5 classes"
};

/// What a batch is used for.
enum class BatchUse { kTraining, kValidation };

/// Defines how a batch becomes a loss. The trainer runs this definition, the planner traces it, and
/// the certificate checks it. It does not depend on micro-batches, precision or devices. Callers:
/// refuse_bad_unit() (step_plan.cpp) checks a batch. StepExecution (step_execution.cpp) arranges,
/// weights and prepares it, and constrains the network after the step. Accumulation (gradient.cpp)
/// encodes its parts and computes loss and scores. During validation, measure() (validation.cpp)
/// does all of this. TrainingStage prints the notes.
class TrainingStep {
 public:
  virtual ~TrainingStep() = default;

  /// Returns the terms that add up to the loss, in the order in which loss() returns them.
  virtual std::vector<LossTerm> terms() const = 0;

  /// True if a layer's output for one row depends on other rows (train-mode BatchNorm). Splitting a
  /// batch is then never exact, unless the whole loss is computed over groups, in which case
  /// encode() runs such layers on one group after another.
  virtual bool mixes_samples() const = 0;
  /// Returns the reason why mixes_samples() is true, as Model::why_mixed() does.
  virtual std::string why_mixed() const { return kMixingLayers; }
  /// True if layers that mix samples use the rows of all ranks, as in Model::mixes_over_ranks().
  virtual bool mixes_over_ranks() const { return false; }

  /// True if the recipe declares how the terms couple samples, because user code computes them. A
  /// certificate then splits a batch even if the plan does not.
  virtual bool declares_couplings() const { return false; }

  /// Returns a string that identifies everything a dry run of the step depends on, except its model
  /// and the shapes of its data. Two steps with the same string run the same operations on tensors
  /// of the same sizes, regardless of the tensors' values. nullopt if unknown.
  virtual std::optional<std::string> structure() const { return {}; }

  /// Checks a batch that is still on the host, where this costs nothing. Finds problems that would
  /// make loss() crash.
  virtual std::optional<BadUnit> find_bad_unit(const Batch& /*batch*/) const { return {}; }

  /// Returns the batch to compute with instead of a dataset's batch, which is still on the host:
  /// for example with each text only once, as tokens. The result must have the same number of
  /// units. On the Meta device, it must have its largest possible size.
  virtual Batch arrange(const Batch& batch, BatchUse /*use*/) const { return batch; }

  /// Returns the batch to train on instead of `batch` at one step, for example with mixed samples.
  /// Depends only on the batch and the key, and is called before the batch is split into parts. Not
  /// called in validation.
  virtual Batch prepare(const Batch& batch, const StepKey& /*key*/) const { return batch; }
  /// True if prepare(), or a loss over the whole batch, reads images or other large inputs of
  /// samples: every rank then needs the inputs of all samples, not just of its share.
  virtual bool reads_whole_batch() const { return false; }

  /// Returns named embeddings or logits of some units, rows first, in the order of the units; row
  /// counts may differ between inputs. A scalar (a learned temperature) is the same for all units.
  /// If several inputs go through the network, each must be named by a ScopedInput. Has no side
  /// effects and uses only counter-based randomness, since it may be called again to recompute.
  virtual NamedTensors encode(torch::nn::Module& network, const Batch& part) const = 0;

  /// Returns one scalar per term, by the term's name: the sum over the samples or groups of `part`,
  /// or the coupled loss times the batch's weight. The trainer divides by weight(whole batch).
  virtual NamedTensors loss(const NamedTensors& encoded, const Batch& part) const = 0;

  /// Returns messages for the user about what the training run will do.
  virtual std::vector<std::string> notes() const { return {}; }

  /// Returns the denominator of the mean: the number of units, or the sum of their weights. Called
  /// while the batch is on the host.
  virtual double weight(const Batch& batch) const { return static_cast<double>(batch.units()); }

  /// Returns sums over the units to report in addition to the loss, by name, such as {"accuracy":
  /// correct}; each is divided by scored().
  virtual NamedTensors score(const NamedTensors& /*encoded*/, const Batch& /*part*/) const {
    return {};
  }

  /// Returns the number that a batch's scores are divided by: the number of its units, or the
  /// number of items in them. A score is then a ratio of counts, which does not depend on how the
  /// batch is split.
  virtual std::int64_t scored(const Batch& batch) const { return batch.units(); }

  /// Returns the data of each validation unit that scores_of_all() needs, rows first, without a
  /// graph; undefined if it needs none.
  virtual at::Tensor kept_in_validation(const NamedTensors& /*encoded*/,
                                        const Batch& /*part*/) const {
    return {};
  }
  /// Returns the number of bytes that kept_in_validation() keeps per unit. Plans include them.
  virtual std::int64_t bytes_kept_in_validation() const { return 0; }
  /// Returns scores that are not sums over units, such as the area under a curve, computed on the
  /// CPU from all kept rows.
  virtual std::vector<std::pair<std::string, double>> scores_of_all(
      const at::Tensor& /*kept*/) const {
    return {};
  }

  /// Returns numbers to save with the validated weights but not to record as metrics, such as
  /// thresholds for predictions; computed like scores_of_all(). Their names must differ from those
  /// of scores.
  virtual std::vector<std::pair<std::string, double>> saved_of_all(
      const at::Tensor& /*kept*/) const {
    return {};
  }

  /// Adds the step's decisions to the description of the data that the network is built for: the
  /// targets of a network that predicts numbers, or an ordinal head. The description is saved with
  /// the weights.
  virtual void describe(DatasetDescription& /*data*/) const {}

  /// Moves weights back into their allowed range after an optimizer step. Allocates nothing.
  virtual void constrain(torch::nn::Module& /*network*/) const {}

  /// Returns the reason why a CUDA graph cannot replay encode(), loss() and score(); empty if it
  /// can: their operations on parts with equal shapes do not depend on the values, none of them
  /// waits for the device or copies from or to the host, and weight() depends only on the number of
  /// units, unless weighs_samples() is true.
  virtual std::string why_not_replayed() const {
    return "this kind of training may behave differently in each step";
  }

  /// True if weight() depends on the values in a batch. The loss is then divided by a number in the
  /// device's memory, which a CUDA graph reads in each step.
  virtual bool weighs_samples() const { return false; }
};

/// The training data and the validation data; `validation` may be null.
struct TrainingData {
  std::shared_ptr<const Dataset> train, validation;
};

/// Together with its schema, defines one kind of training. The kind's own options are captured by
/// these functions.
struct TrainingKind {
  /// Returns the data to train on instead of the input data: class-balanced samples, or episodes.
  /// `seed` is the node's seed. Throws runner::StageError if the data is unsuitable. If null,
  /// training uses the input data.
  std::function<TrainingData(TrainingData data, std::uint64_t seed)> draw = {};
  /// Creates the training step for a model that runs on such data; both outlive the step. Throws
  /// runner::StageError if the model or the data is unsuitable: the kind's checks belong here and
  /// run first. `data` is the result of `draw`.
  std::function<std::unique_ptr<TrainingStep>(const Model& model, const TrainingData& data,
                                              const MemoryPolicy& policy)>
      make_step;
  /// The scores of the step that the option `monitor` may select in addition to "loss". Higher is
  /// better.
  std::vector<std::string_view> scores = {};
  /// Whether a higher value of the monitored score is better, if `monitor` may be any string;
  /// nullopt: `monitor` must be "loss" or one of `scores`.
  std::optional<bool> higher_is_better = {};
  /// The parts of the kind's models that can have a learning rate factor.
  std::vector<NetworkPart> parts = {{"head", {"head", "classifier"}}, {"backbone", {"**"}}};
  /// The part that is trained alone in the first epochs.
  PartTrainedFirst trained_first = {};
  /// The kind's name for the option that sets the number of units per step.
  std::string_view batch_option = "batch_size";
  /// The validation accuracy at which training stops; nullopt: none.
  std::optional<double> enough_accuracy = {};
  /// If true, the network is freed once it is trained; a stage that needs the network reads it from
  /// its checkpoint. If a run has many training stages, only one network is in memory at a time.
  bool lets_network_go = false;
};

/// Creates the stage for a kind of training. All kinds share this code to plan, certify, train,
/// accumulate gradients, warm-start, resume, validate and reuse the weights of an earlier run. The
/// input ports are train, validation (optional), model and memory; the output is a checkpoint.
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
/// The caller reads the kind's own options first; this function then reads the options that all
/// kinds share. Those are documented in the schema of train.supervised, to which the other schemas
/// refer.
runner::Result<std::unique_ptr<runner::Stage>> make_training_stage(runner::ConfigReader& reader,
                                                                   TrainingKind kind);

}  // namespace stages
