#include "stages/evaluate/predictor.h"

#include <algorithm>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/batch_shares.h"
#include "stages/artifact/episode_set.h"
#include "stages/artifact/grouped_samples.h"
#include "stages/artifact/label_sets.h"
#include "stages/artifact/loader.h"
#include "stages/artifact/targets.h"
#include "stages/evaluate/classification_curves.h"
#include "stages/numerics/prepared_network.h"
#include "stages/plan/plan_forward.h"
#include "stages/plan/recovery.h"
#include "stages/python/python_host.h"
#include "stages/ranks/gathered_rows.h"
#include "stages/ranks/rank_group.h"

namespace stages {

at::Tensor flipped_mean(const NamedTensors& inputs, TestTimeFlip flip,
                        const std::function<at::Tensor(const NamedTensors&)>& logits) {
  std::vector<std::vector<std::int64_t>> mirrors;  // each with the dimensions to flip
  if (flip == TestTimeFlip::kHorizontal || flip == TestTimeFlip::kBoth) mirrors.push_back({3});
  if (flip == TestTimeFlip::kVertical || flip == TestTimeFlip::kBoth) mirrors.push_back({2});
  if (flip == TestTimeFlip::kBoth) mirrors.push_back({2, 3});
  at::Tensor sum = logits(inputs);
  if (!mirrors.empty()) sum = sum.to(at::promote_types(sum.scalar_type(), at::kFloat));
  for (const auto& dimensions : mirrors) {
    NamedTensors mirrored = inputs;
    mirrored.set("image", inputs.at("image").flip(dimensions));
    sum = sum + logits(mirrored);
  }
  return mirrors.empty() ? sum : sum / static_cast<double>(mirrors.size() + 1);
}

namespace {

using runner::ErrorCode;
using runner::StageError;

constexpr std::int64_t kBatchesOfSmoke = 2;

std::int64_t first_row(const at::Tensor& is_bad) {
  return is_bad.to(at::kByte).argmax().item<std::int64_t>();
}

/// Throws if the outputs or the labels of the samples in `indices` are not valid.
void check(const at::Tensor& logits, bool are_classes, const at::Tensor& labels,
           const std::vector<std::int64_t>& indices, const Dataset& test) {
  // An episode has several rows.
  const std::int64_t rows_each = logits.size(0) / std::ssize(indices);
  const auto name_of = [&](std::int64_t row) {
    return test.sample_name(indices[static_cast<std::size_t>(row / rows_each)]);
  };
  const at::Tensor outside =
      are_classes ? labels.lt(0).logical_or(labels.ge(logits.size(1))) : at::Tensor();
  if (are_classes && outside.any().item<bool>()) {
    const std::int64_t row = first_row(outside);
    throw StageError(ErrorCode::kLabelOutOfRange,
                     "'" + name_of(row) + "' has label " +
                         std::to_string(labels[row].item<std::int64_t>()) +
                         ", but the network has " + std::to_string(logits.size(1)) + " classes")
        .with_help("evaluate on the classes the model was trained on");
  }
  const at::Tensor broken = logits.isfinite().all(1).logical_not();
  if (broken.any().item<bool>()) {
    throw StageError(ErrorCode::kStageFailed, "the network returned a non-finite logit for '" +
                                                  name_of(first_row(broken)) + "'")
        .with_help("the weights or the sample are damaged, or training diverged: check train/loss");
  }
}

std::shared_ptr<const MemoryPolicy> policy_or_none(std::shared_ptr<const MemoryPolicy> policy) {
  return policy ? policy : std::make_shared<const MemoryPolicy>();
}

/// Adds the memory needed to compute metrics from all samples' logits, in addition to the logits
/// themselves.
void add_metrics(PlannedForward& planned, std::int64_t samples, bool calibrates) {
  constexpr auto kLabel = static_cast<std::int64_t>(sizeof(std::int64_t));
  const std::int64_t classes = planned.output.size(1);
  const std::int64_t logits = samples * classes *
                              static_cast<std::int64_t>(planned.output.element_size()),
                     shares = samples * classes * static_cast<std::int64_t>(sizeof(float));
  add_term(planned.plan, {"metrics",
                          2 * kLabel * samples +
                              (calibrates ? 2 : 1) * std::max<std::int64_t>(shares - logits, 0) +
                              curve_bytes(samples, classes),
                          "labels, probabilities and curves for all samples and classes"});
}

/// Adds the memory for the targets of all samples, in addition to the outputs. At the end, the
/// batches' targets are concatenated, and the outputs are converted to float32.
void add_targets(PlannedForward& planned, const Predictor::Options& options,
                 const DatasetDescription& data) {
  const auto spec = std::ranges::find(data.tensors, options.target, &TensorSpec::name);
  std::int64_t bytes = static_cast<std::int64_t>(at::elementSize(spec->dtype));
  for (const std::int64_t size : spec->shape) bytes *= size;
  const std::int64_t outputs = planned.output.size(1) * static_cast<std::int64_t>(sizeof(float));
  const bool is_counted = options.metric_bytes != nullptr;
  const std::int64_t metrics =
      is_counted ? options.metric_bytes(data.size, planned.output.size(1)) : 0;
  add_term(planned.plan,
           {"metrics", (2 * bytes + outputs) * data.size + metrics,
            is_counted ? "targets, outputs and curves of all samples"
                       : "targets and outputs of all samples; memory used by Python is not "
                         "counted"});
}

/// Returns the shape of one sample or, for an episode, of one image, since its model checks the
/// number of images.
std::vector<std::int64_t> sample_shape(const TensorSpec& spec, const DatasetDescription& test) {
  if (!episode_shape(test)) return spec.shape;
  if (spec.name == "label" || spec.name == "support") return {};
  return {spec.shape.begin() + 1, spec.shape.end()};
}

}  // namespace

Predictor::Predictor(const runner::Inputs& inputs, Options options)
    : Predictor(inputs.get<Dataset>("test"), inputs.get<Checkpoint>("checkpoint"),
                inputs.find<MemoryPolicy>("memory"), std::move(options)) {}

Predictor::Predictor(std::shared_ptr<const Dataset> test,
                     std::shared_ptr<const Checkpoint> checkpoint,
                     std::shared_ptr<const MemoryPolicy> policy, Options options)
    : test_(std::move(test)),
      checkpoint_(std::move(checkpoint)),
      policy_(policy_or_none(std::move(policy))),
      options_(std::move(options)),
      batch_size_(
          std::min(options_.batch_size, policy_->micro_batch.value_or(options_.batch_size))) {
  const DatasetDescription described = test_->describe();
  if (described.size == 0) {
    throw StageError(ErrorCode::kTooFewSamples, "the test set is empty")
        .with_help(
            "add test samples to the data stage, set aside a fraction of the data for testing, or "
            "leave out the evaluation: ~evaluate. With data.folds and no test part, wire the "
            "data's `validation` output to the evaluation's `test` input");
  }
  if (options_.draw) test_ = options_.draw(std::move(test_), *checkpoint_);
  const auto image = std::ranges::find(described.tensors, "image", &TensorSpec::name);
  const bool has_pixels = image != described.tensors.end() && image->shape.size() == 3;
  if (options_.flip == TestTimeFlip::kNone || has_pixels) return;
  throw StageError(ErrorCode::kOptionConflict,
                   "test_time_flip mirrors images, but the test set has none")
      .at("/test_time_flip")
      .with_help("set test_time_flip: none, or evaluate on images");
}

at::Tensor Predictor::logits(torch::nn::Module& network, const NamedTensors& inputs) const {
  if (options_.outputs) return options_.outputs(network, inputs);
  const auto outputs = [&](const NamedTensors& seen) {
    const at::Tensor logits = checkpoint_->model->forward(network, seen).at("logits");
    return logits.flatten(0, -2);
  };
  return class_logits(flipped_mean(inputs, options_.flip, outputs), checkpoint_->ordinal);
}

void Predictor::say(const std::string& line, runner::RunContext& context) const {
  if (!options_.told || options_.told->insert(line).second) context.say(line);
}

/// Throws if the network was trained on samples of a different shape. Reports differences in
/// preprocessing.
void Predictor::check_inputs(runner::RunContext& context) const {
  const auto in_words = [](const std::vector<std::int64_t>& shape) {
    return nlohmann::json(shape).dump();
  };
  const DatasetDescription test = test_->describe();
  for (const TensorSpec& trained : checkpoint_->inputs) {
    if (trained.name == kLabelSet || trained.name == kTarget) continue;  // compared by name
    const auto tested = std::ranges::find(test.tensors, trained.name, &TensorSpec::name);
    if (tested == test.tensors.end() || sample_shape(*tested, test) == sample_shape(trained, test))
      continue;
    throw StageError(ErrorCode::kOptionConflict,
                     "'" + trained.name + "' is " + in_words(tested->shape) +
                         " in the test set, but was " + in_words(trained.shape) + " in training")
        .with_help("set the size in the data stage to the one used in training");
  }
  if (!checkpoint_->transform.empty() && test.transform != checkpoint_->transform) {
    say("the test set is preprocessed differently from the training data: " + test.transform +
            " now, " + checkpoint_->transform + " then",
        context);
  }
}

PlannedForward Predictor::planned(runner::PlanContext& context) const {
  check_inputs(context);
  const DatasetDescription data = test_->describe();
  const DatasetDescription trained_on = checkpoint_->trained_on(data.size);
  const Model& model = *checkpoint_->model;
  return plan_forward(
      {.name = checkpoint_->model_stage,
       .data = data,
       .dataset = test_.get(),
       .loader = test_->loader(),
       .batch_size = batch_size_,
       .policy = *policy_,
       .outline = [&] { return model.outline(trained_on); },
       .batch_option = options_.pointer.substr(std::min<std::size_t>(1, options_.pointer.size())) +
                       ".batch_size",
       .forward = [&](torch::nn::Module& network,
                      const NamedTensors& inputs) { return logits(network, inputs); },
       .besides =
           [&](PlannedForward& planned) {
             if (options_.target.empty()) add_metrics(planned, data.size, options_.calibrates);
             else add_targets(planned, options_, data);
           },
       .build = has_python() ? [&] { return model.build(trained_on, /*seed=*/0); }
                             : std::function<std::shared_ptr<torch::nn::Module>()>(),
       .samples = test_},
      /*keeps_results=*/true, context);
}

Predictor::Planned Predictor::plan(runner::PlanContext& context) const {
  PlannedForward planned = this->planned(context);
  const DatasetDescription data = test_->describe();
  context.plan(std::move(planned.plan));
  std::vector<std::int64_t> shape = planned.output.sizes().vec();
  shape[0] = shape[0] / std::min(planned.batch_size, data.size) * data.size;
  return {torch::empty(shape, planned.output.options()), planned.batch_size};
}

ScopedMemoryBudget Predictor::hold_budget(const runner::RunContext& context) const {
  const at::Device device{context.node().device};
  return ScopedMemoryBudget(memory_budget(*policy_, device), device);
}

/// The results of this rank, by batch.
struct Predictor::Outputs {
  std::vector<std::int64_t> indices;  // samples in the dataset, without skipped ones
  std::vector<at::Tensor> logits, labels;
  std::int64_t skipped = 0;
};

/// Joins the results of all ranks.
ClassifiedSamples Predictor::classified(Outputs own) const {
  const auto joined = [&](std::vector<at::Tensor>& parts) {
    const at::Tensor rows = parts.empty() ? at::Tensor() : torch::cat(parts);
    parts.clear();
    return options_.group ? gathered_rows(rows, *options_.group) : rows;
  };
  ClassifiedSamples result{.names = {}, .logits = joined(own.logits), .labels = joined(own.labels)};
  std::vector<at::Tensor> own_indices = {torch::tensor(own.indices, torch::kLong)};
  const at::Tensor indices = joined(own_indices),
                   skipped = torch::full({1}, own.skipped, torch::kLong);
  if (options_.group) options_.group->sum(skipped);
  result.skipped = skipped.item<std::int64_t>();
  if (indices.numel() == 0) {
    throw StageError(ErrorCode::kTooFewSamples, "the test set has no readable samples")
        .with_help("add samples to the data stage, or raise the fraction for testing");
  }
  const auto* const groups = dynamic_cast<const GroupedSamples*>(test_.get());
  const auto* const index = indices.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < indices.numel(); ++i) {
    result.names.push_back(test_->sample_name(index[i]));
    if (groups) result.groups.push_back(groups->group_of(index[i]));
  }
  if (std::ranges::all_of(result.groups, &std::string::empty)) result.groups.clear();
  return result;
}

ClassifiedSamples Predictor::classify(runner::RunContext& context) const {
  check_inputs(context);
  const torch::Device device{context.node().device};
  const auto opened = checkpoint_->opened();
  const Numerics numerics =
      choose_numerics(policy_->numerics(), *opened, checkpoint_->model_stage, device,
                      [&](std::string_view line) { say(std::string(line), context); });
  context.debug("numerics: " + to_json(numerics).dump());
  const PreparedNetwork network(*opened, numerics, device);

  std::int64_t samples = test_->describe().size;
  if (context.node().smoke) samples = std::min(samples, kBatchesOfSmoke * batch_size_);
  const RowRange own = own_share_of_batches(samples, batch_size_, options_.group);
  RetriedLoader loader({test_, order_of(own), batch_size_}, *policy_, context);
  const PassProgress progress("evaluate", loader.batches());
  RowsAtOnce rows(*policy_, device, "evaluation", context);
  const auto episode = episode_shape(test_->describe());
  const std::int64_t samples_each = episode ? episode->samples() : 1;

  Outputs outputs;
  for (std::int64_t done = 1; own.begin < own.end; ++done) {
    if (context.canceled()) throw runner::Canceled{};
    const std::optional<Batch> batch = loader.next();
    if (!batch) break;
    const auto forward = [&](std::int64_t at_once) {
      std::vector<at::Tensor> parts;
      for (std::int64_t begin = 0; begin < batch->units(); begin += at_once) {
        const Batch placed = network.placed(
            at_once < batch->units() ? batch->part(begin, std::min(begin + at_once, batch->units()))
                                     : *batch);
        const ScopedInference inference(network);
        parts.push_back(logits(network.module(), placed.tensors()).cpu());
      }
      outputs.logits.push_back(parts.size() == 1 ? parts.front() : torch::cat(parts));
    };
    run_or_go_elsewhere(*policy_, device, [&] { rows.run(batch->units(), forward); });
    outputs.labels.push_back(options_.target.empty()
                                 ? (*batch)["label"].to(at::kCPU, at::kLong).flatten()
                                 : (*batch)[options_.target].to(at::kCPU));
    check(outputs.logits.back(), /*are_classes=*/!options_.outputs && options_.target.empty(),
          outputs.labels.back(), batch->indices, *test_);
    outputs.indices.insert(outputs.indices.end(), batch->indices.begin(), batch->indices.end());
    context.progress(progress.after(done, std::ssize(outputs.indices) * samples_each));
  }
  outputs.skipped = loader.skipped();
  return classified(std::move(outputs));
}

}  // namespace stages
