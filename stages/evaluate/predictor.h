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

/// Which mirrored copies of an image are predicted in addition to the image itself.
enum class TestTimeFlip { kNone, kHorizontal, kVertical, kBoth };

/// The names used in recipes, flags and requests.
inline constexpr std::array<std::pair<std::string_view, TestTimeFlip>, 4> kTestTimeFlips = {
    {{"none", TestTimeFlip::kNone},
     {"horizontal", TestTimeFlip::kHorizontal},
     {"vertical", TestTimeFlip::kVertical},
     {"both", TestTimeFlip::kBoth}}};

/// The mean of `logits` over each row of `inputs` and its mirrored copies, in which "image" (n,
/// channels, height, width) is flipped.
at::Tensor flipped_mean(const NamedTensors& inputs, TestTimeFlip flip,
                        const std::function<at::Tensor(const NamedTensors&)>& logits);

/// A classifier's outputs for every sample of a dataset, in the dataset's order.
struct ClassifiedSamples {
  std::vector<std::string> names;  ///< of the samples
  at::Tensor logits;  ///< (n, classes) on the CPU, of the network's type; all finite. For episodes:
                      ///< the logits of their queries. Or the result of Options::outputs
  at::Tensor labels;  ///< (n) int64 on the CPU, each in [0, classes). Or Options::target, (n, …)
  std::int64_t skipped = 0;  ///< samples the dataset skipped because it could not read them
  std::vector<std::int64_t> predicted =
      {};  ///< predicted class of each sample, if not the class of its largest logit
};

/// What all kinds of evaluation share: runs the network of a checkpoint over a test set under a
/// memory policy, and plans that run with the same code.
///
///   const Predictor predictor(inputs, batch_size);
///   check(predictor.test().describe(), predictor.checkpoint());  // what this kind alone requires
///   predictor.plan(context);
///   const ClassifiedSamples samples = predictor.classify(context);
class Predictor {
 public:
  struct Options {
    std::int64_t batch_size = 1;              ///< the largest number of samples run at once
    TestTimeFlip flip = TestTimeFlip::kNone;  ///< average a sample's logits over its mirrored
                                              ///< copies
    std::string pointer = {};                 ///< where the stage stands in the recipe, "/evaluate"
    /// Returns what to evaluate in place of the test set: episodes of it. Null: the test set
    /// itself.
    std::function<std::shared_ptr<const Dataset>(std::shared_ptr<const Dataset> test,
                                                 const Checkpoint& checkpoint)>
        draw = {};
    /// Computes what is kept of each row of a batch in place of the model's logits, (rows,
    /// columns). Null: the logits.
    std::function<at::Tensor(torch::nn::Module& network, const NamedTensors& inputs)> outputs = {};
    /// The tensor of a sample that is kept as it is in place of class labels. Empty: the labels.
    std::string target = {};
    /// Lines already reported by predictors that share this set; none repeats a line. Null: this
    /// predictor reports all of its own.
    std::shared_ptr<std::set<std::string>> told = {};
  };
  /// Reads the ports test, checkpoint and memory; memory may be empty. Throws runner::StageError if
  /// the test set is empty, or is to be flipped and holds no images.
  Predictor(const runner::Inputs& inputs, Options options);
  /// The same with the values of those ports; `policy` may be null.
  Predictor(std::shared_ptr<const Dataset> test, std::shared_ptr<const Checkpoint> checkpoint,
            std::shared_ptr<const MemoryPolicy> policy, Options options);

  const Dataset& test() const { return *test_; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }

  struct Planned {
    at::Tensor logits;        ///< a stand-in for the logits of all samples, on the Meta device
    std::int64_t batch_size;  ///< the largest that fits
  };
  /// Reports what classify() would need. If that does not fit, a smaller batch is used or suggested
  /// (plan_forward.h).
  Planned plan(runner::PlanContext& context) const;
  /// The same without reporting it.
  PlannedForward planned(runner::PlanContext& context) const;

  /// Limits the device to the policy's budget.
  ScopedMemoryBudget hold_budget(const runner::RunContext& context) const;

  /// Runs the network on the context's device, in eval mode and without a graph, over all samples,
  /// or over two batches in a smoke run. Reports progress and checks for cancellation at every
  /// batch. Throws runner::StageError if the network was made for samples of another shape, for a
  /// label that it has no output for, for an output that is not finite (naming the sample), and if
  /// no sample is left (kTooFewSamples).
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
