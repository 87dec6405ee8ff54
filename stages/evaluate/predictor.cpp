#include "stages/evaluate/predictor.h"

#include <algorithm>
#include <chrono>

#include <torch/torch.h>

#include "runner/stage/run_context.h"
#include "runner/stage/stage.h"
#include "stages/artifact/loader.h"
#include "stages/numerics/precision_module.h"
#include "stages/numerics/tf32.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr std::int64_t kBatchesOfSmoke = 2;

std::int64_t first_row(const at::Tensor& is_bad) { return is_bad.to(at::kByte).argmax().item<std::int64_t>(); }

void check(const at::Tensor& logits, const at::Tensor& labels, const std::vector<std::string>& names) {
  const at::Tensor outside = labels.lt(0).logical_or(labels.ge(logits.size(1)));
  if (outside.any().item<bool>()) {
    const std::int64_t row = first_row(outside);
    throw StageError(ErrorCode::kLabelOutOfRange, "'" + names[static_cast<std::size_t>(row)] + "' has label " +
                                                      std::to_string(labels[row].item<std::int64_t>()) +
                                                      ", the network " + std::to_string(logits.size(1)) + " classes")
        .with_help("evaluate on the classes the model was trained on");
  }
  const at::Tensor broken = logits.isfinite().all(1).logical_not();
  if (broken.any().item<bool>()) {
    throw StageError(ErrorCode::kStageFailed, "the network gives a logit that is not a finite number for '" +
                                                  names[static_cast<std::size_t>(first_row(broken))] + "'")
        .with_help("the weights or the sample are damaged, or the training diverged: look at train/loss");
  }
}

/// Follows the batches for whoever watches.
class Watch {
 public:
  explicit Watch(std::int64_t batches) : batches_(batches) {}

  runner::Progress after(std::int64_t batch, std::int64_t samples) const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    runner::Progress progress;
    progress.phase = "evaluate";
    progress.step = batch;
    progress.steps = batches_;
    if (passed.count() > 0) progress.samples_per_second = static_cast<double>(samples) / passed.count();
    progress.seconds_left = passed.count() / static_cast<double>(batch) * static_cast<double>(batches_ - batch);
    return progress;
  }

 private:
  const std::int64_t batches_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

ClassifiedSamples classify(const std::shared_ptr<const Dataset>& dataset, const Checkpoint& checkpoint,
                           std::int64_t batch_size, const Numerics& numerics, runner::RunContext& context) {
  const torch::NoGradGuard no_graph;
  const torch::Device device{std::string(context.device())};
  checkpoint.network->eval();
  set_layout(*checkpoint.network, numerics.layout);
  const ScopedTf32 tf32(numerics.tf32);
  const ScopedPrecisionMap modules(*checkpoint.network, numerics.precision, device);

  std::int64_t samples = dataset->describe().size;
  if (context.smoke()) samples = std::min(samples, kBatchesOfSmoke * batch_size);
  Loader loader(dataset, sequential_order(samples), batch_size, /*epoch=*/0);
  const Watch watch(loader.batches());

  ClassifiedSamples result;
  std::vector<at::Tensor> logits, labels;
  for (std::int64_t done = 1;; ++done) {
    if (context.cancelled()) throw runner::Cancelled{};
    const std::optional<Batch> batch = loader.next();
    if (!batch) break;
    const std::size_t first = result.names.size();
    for (const std::int64_t index : batch->indices) result.names.push_back(dataset->sample_name(index));

    const Batch on_device = in_layout(batch->to(device), numerics.layout);
    const ScopedPrecision precision(numerics.precision.base, device);
    logits.push_back(checkpoint.model->forward(*checkpoint.network, on_device.tensors()).at("logits").cpu());
    labels.push_back((*batch)["label"].to(at::kCPU, at::kLong));
    check(logits.back(), labels.back(),
          {result.names.begin() + static_cast<std::ptrdiff_t>(first), result.names.end()});
    context.progress(watch.after(done, static_cast<std::int64_t>(result.names.size())));
  }
  result.skipped = loader.skipped();
  if (logits.empty()) {
    throw StageError(ErrorCode::kTooFewSamples, "the test set has no samples that can be read")
        .with_help("give the data stage more samples, or a larger share for testing");
  }
  result.logits = torch::cat(logits);
  result.labels = torch::cat(labels);
  return result;
}

}  // namespace stages
