#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/plan/memory_budget.h"
#include "stages/plan/plan_forward.h"
#include "stages/tensor/named_tensors.h"

namespace runner {
class Inputs;
class PlanContext;
class RunContext;
}  // namespace runner

namespace stages {

/// In which mirrors an image is looked at besides itself.
enum class TestTimeFlip { kNone, kHorizontal, kVertical, kBoth };

/// As recipes, flags and requests write them.
inline constexpr std::array<std::pair<std::string_view, TestTimeFlip>, 4> kTestTimeFlips = {
    {{"none", TestTimeFlip::kNone},
     {"horizontal", TestTimeFlip::kHorizontal},
     {"vertical", TestTimeFlip::kVertical},
     {"both", TestTimeFlip::kBoth}}};

/// The mean of what `logits` says of each row of `inputs` and of its mirrors, in which "image" (n,
/// channels, height, width) is turned around.
at::Tensor flipped_mean(const NamedTensors& inputs, TestTimeFlip flip,
                        const std::function<at::Tensor(const NamedTensors&)>& logits);

/// What a classifier said about every sample of a dataset, in the dataset's order.
struct ClassifiedSamples {
  std::vector<std::string> names;  ///< of the samples
  at::Tensor logits;  ///< (n, classes) on the CPU, of the network's type; all finite; of an episode
                      ///< its queries; or what else was asked for
  at::Tensor labels;  ///< (n) int64 on the CPU, each in [0, classes)
  std::int64_t skipped = 0;  ///< samples the dataset left out because it could not read them
  std::vector<std::int64_t> predicted =
      {};  ///< of each sample, where that is not the class of its largest logit
};

/// What every kind of evaluation shares: the network of a checkpoint, which is run over a test set
/// as a memory policy says, and planned as it is run.
///
///   const Predictor predictor(inputs, batch_size);
///   check(predictor.test().describe(), predictor.checkpoint());  // what the kind alone asks for
///   predictor.plan(context);
///   const ClassifiedSamples samples = predictor.classify(context);
class Predictor {
 public:
  struct Options {
    std::int64_t batch_size = 1;              ///< samples that are run at once, at most
    TestTimeFlip flip = TestTimeFlip::kNone;  ///< a sample's logits are the mean over its mirrors
    std::string pointer = {};                 ///< where the recipe says this, "/evaluate"
    /// What is gone through in place of the test set: episodes of it. Null: the test set itself.
    std::function<std::shared_ptr<const Dataset>(std::shared_ptr<const Dataset> test,
                                                 const Checkpoint& checkpoint)>
        draw = {};
    /// What is kept of each row of a batch in place of the model's logits, (rows, columns). Null:
    /// the logits.
    std::function<at::Tensor(torch::nn::Module& network, const NamedTensors& inputs)> outputs = {};
    /// What predictors that share it have said: none says a line again. Null: this one says all of
    /// its own.
    std::shared_ptr<std::set<std::string>> told = {};
  };
  /// Takes what is on the ports test, checkpoint and memory, which may be empty. Throws
  /// runner::StageError where the test set is empty, or is to be flipped and holds no images.
  Predictor(const runner::Inputs& inputs, Options options);
  /// The same of what is on such ports; `policy` may be null.
  Predictor(std::shared_ptr<const Dataset> test, std::shared_ptr<const Checkpoint> checkpoint,
            std::shared_ptr<const MemoryPolicy> policy, Options options);

  const Dataset& test() const { return *test_; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }

  struct Planned {
    at::Tensor logits;        ///< a stand-in for those of all samples, on the Meta device
    std::int64_t batch_size;  ///< that fits
  };
  /// Shows what classify() would need. Where that does not fit, a smaller batch is taken or named
  /// (plan_forward.h).
  Planned plan(runner::PlanContext& context) const;
  /// The same, without showing it.
  PlannedForward planned(runner::PlanContext& context) const;

  /// Holds the device to the policy's budget.
  ScopedMemoryBudget hold_budget(const runner::RunContext& context) const;

  /// Runs the network on the context's device, in eval mode and without a graph, over all samples,
  /// or over two batches of a smoke run. Reports progress and looks for cancellation at every
  /// batch. Throws runner::StageError where the network was made for samples of another shape, for
  /// a label it has no output for and for an output that is not finite, naming the sample, and
  /// where no sample is left (kTooFewSamples).
  ClassifiedSamples classify(runner::RunContext& context) const;

 private:
  void say(const std::string& line, runner::RunContext& context) const;
  void check_inputs(runner::RunContext& context) const;
  at::Tensor logits(torch::nn::Module& network, const NamedTensors& inputs) const;

  std::shared_ptr<const Dataset> test_;
  const std::shared_ptr<const Checkpoint> checkpoint_;
  const std::shared_ptr<const MemoryPolicy> policy_;
  const Options options_;
  const std::int64_t batch_size_;
};

}  // namespace stages
