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

class RankGroup;

/// The mirrored copies of an image that the network sees in addition to the image itself.
enum class TestTimeFlip { kNone, kHorizontal, kVertical, kBoth };

/// The names used in recipes, flags and requests.
inline constexpr std::array<std::pair<std::string_view, TestTimeFlip>, 4> kTestTimeFlips = {
    {{"none", TestTimeFlip::kNone},
     {"horizontal", TestTimeFlip::kHorizontal},
     {"vertical", TestTimeFlip::kVertical},
     {"both", TestTimeFlip::kBoth}}};

/// Returns the mean of `logits` over `inputs` and its mirrored copies, with "image" (n, channels,
/// height, width) flipped.
at::Tensor flipped_mean(const NamedTensors& inputs, TestTimeFlip flip,
                        const std::function<at::Tensor(const NamedTensors&)>& logits);

/// A network's outputs for all samples of a dataset, in dataset order.
struct ClassifiedSamples {
  std::vector<std::string> names;  ///< the names of the samples
  /// The logits of shape (n, classes) on the CPU, in the network's type, all finite. For episodes,
  /// these are the logits of their queries. With Options::outputs, the results of that function.
  at::Tensor logits;
  /// int64 of shape (n) on the CPU, in [0, classes). With Options::target, that tensor, of shape
  /// (n, …).
  at::Tensor labels;
  std::int64_t skipped = 0;  ///< number of skipped unreadable samples
  /// The predicted class of each sample; empty: the class with the largest logit.
  std::vector<std::int64_t> predicted = {};
  /// Number of samples on which the network was trained or selected.
  std::int64_t trained = 0;
  /// The group of each sample (GroupedSamples), "" for one without a group; empty: there are none.
  std::vector<std::string> groups = {};
};

/// Runs a checkpoint's network on a test set under a memory policy, and plans this with the same
/// code. All kinds of evaluation use this:
///
///   const Predictor predictor(inputs, batch_size);
///   check(predictor.test().describe(), predictor.checkpoint());  // what this kind alone requires
///   predictor.plan(context);
///   const ClassifiedSamples samples = predictor.classify(context);
class Predictor {
 public:
  struct Options {
    std::int64_t batch_size = 1;  ///< the largest number of samples run at once
    /// Averages a sample's logits over its mirrored copies.
    TestTimeFlip flip = TestTimeFlip::kNone;
    std::string pointer = {};  ///< the stage's location in the recipe, "/evaluate"
    /// Returns the dataset to evaluate instead of the test set, such as episodes drawn from it.
    /// Null: the test set itself.
    std::function<std::shared_ptr<const Dataset>(std::shared_ptr<const Dataset> test,
                                                 const Checkpoint& checkpoint)>
        draw = {};
    /// Computes the outputs (rows, columns) to keep for each batch instead of the model's logits.
    /// Null: the logits.
    std::function<at::Tensor(torch::nn::Module& network, const NamedTensors& inputs)> outputs = {};
    /// The name of the tensor to keep unchanged for each sample instead of class labels. Empty: the
    /// labels.
    std::string target = {};
    /// Returns how many bytes the metrics for this many samples and outputs need, in addition to
    /// the outputs and targets; only with `target`. Null: 0.
    std::function<std::int64_t(std::int64_t samples, std::int64_t outputs)> metric_bytes = {};
    /// True if the logits may be divided by a temperature, which makes them float32.
    bool calibrates = false;
    /// Lines already reported by the predictors that share this set; they are not reported again.
    /// Null: this predictor reports all its lines.
    std::shared_ptr<std::set<std::string>> told = {};
    /// The ranks that divide the samples, in whole batches; each of them then gets the same results
    /// as a single rank. Borrowed. Null: this rank computes everything.
    RankGroup* group = nullptr;
  };
  /// Reads the test, checkpoint and memory ports; the memory port may be empty. Throws
  /// runner::StageError if the test set is empty, or if `flip` is set and the samples have no
  /// images.
  Predictor(const runner::Inputs& inputs, Options options);
  /// Like the constructor above, but takes the values of the ports as arguments; `policy` may be
  /// null.
  Predictor(std::shared_ptr<const Dataset> test, std::shared_ptr<const Checkpoint> checkpoint,
            std::shared_ptr<const MemoryPolicy> policy, Options options);

  const Dataset& test() const { return *test_; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }

  struct Planned {
    at::Tensor logits;        ///< the logits of all samples on the Meta device, without values
    std::int64_t batch_size;  ///< the largest batch size that fits
  };
  /// Reports the memory that classify() needs. If that does not fit, uses or suggests a smaller
  /// batch (plan_forward.h).
  Planned plan(runner::PlanContext& context) const;
  /// Returns the plan for classify() without reporting it.
  PlannedForward planned(runner::PlanContext& context) const;

  /// Limits the device's memory to the policy's budget while the returned guard exists.
  ScopedMemoryBudget hold_budget(const runner::RunContext& context) const;

  /// Runs the network on the context's device, in eval mode and without autograd, over all samples,
  /// or over two batches in a smoke run. Reports progress and checks for cancellation at every
  /// batch. Throws runner::StageError if the network was trained on samples of a different shape,
  /// if a label has no output, if an output is not finite (the message names the sample), and if no
  /// sample can be read (kTooFewSamples).
  ClassifiedSamples classify(runner::RunContext& context) const;

 private:
  struct Outputs;
  void say(const std::string& line, runner::RunContext& context) const;
  ClassifiedSamples classified(Outputs own) const;
  void check_inputs(runner::RunContext& context) const;
  at::Tensor logits(torch::nn::Module& network, const NamedTensors& inputs) const;

  std::shared_ptr<const Dataset> test_;
  const std::shared_ptr<const Checkpoint> checkpoint_;
  const std::shared_ptr<const MemoryPolicy> policy_;
  const Options options_;
  const std::int64_t batch_size_;
};

}  // namespace stages
