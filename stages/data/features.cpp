#include "stages/data/features.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/batch_shares.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/loader.h"
#include "stages/artifact/model.h"
#include "stages/data/feature_shares.h"
#include "stages/numerics/prepared_network.h"
#include "stages/plan/memory_budget.h"
#include "stages/plan/plan_forward.h"
#include "stages/plan/recovery.h"
#include "stages/ranks/rank_group.h"
#include "stages/weights/safetensors.h"
#include "stages/weights/tensor_digest.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::RunContext;
using runner::StageError;

constexpr std::int64_t kSmokeBatches = 2;

struct FeaturesConfig {
  bool cache = true;
  std::int64_t batch_size = 0;
  std::string pointer;  // the stage's location in the recipe, "/features"
  at::ScalarType storage = at::kFloat;
};

std::shared_ptr<torch::nn::Module> built(const Model& model, const DatasetDescription& data,
                                         at::Device device) {
  std::shared_ptr<torch::nn::Module> network = model.build_frozen(data);
  network->to(device);
  return network;
}

/// Runs only the frozen part of a network.
class FrozenPart {
 public:
  FrozenPart(const Model& model, const std::string& model_stage, const DatasetDescription& data,
             const MemoryPolicy& policy, RunContext& context)
      : model_(model),
        device_(context.node().device),
        budget_(memory_budget(policy, device_), device_),
        network_(built(model, data, device_)),
        prepared_(*network_, choose_numerics(policy.numerics(), *network_, model_stage, context),
                  device_),
        policy_(policy),
        rows_(policy, device_, "features", context) {}

  /// Returns the features (n, …) of a batch, on the CPU; values may be non-finite.
  at::Tensor operator()(const Batch& batch) {
    std::vector<at::Tensor> parts;
    const auto forward = [&](std::int64_t at_once) {
      parts.clear();
      for (std::int64_t begin = 0; begin < batch.units(); begin += at_once)
        parts.push_back(features_of(
            at_once < batch.units() ? batch.part(begin, std::min(begin + at_once, batch.units()))
                                    : batch));
    };
    run_or_go_elsewhere(policy_, device_, [&] { rows_.run(batch.units(), forward); });
    return parts.size() == 1 ? parts.front() : torch::cat(parts);
  }

 private:
  at::Tensor features_of(const Batch& batch) const {
    const Batch placed = prepared_.placed(batch);
    const ScopedInference inference(prepared_);
    return model_.frozen_features(*network_, placed.tensors()).at("features").cpu();
  }

  const Model& model_;
  const at::Device device_;
  const ScopedMemoryBudget budget_;
  const std::shared_ptr<torch::nn::Module> network_;
  const PreparedNetwork prepared_;
  const MemoryPolicy& policy_;
  RowsAtOnce rows_;
};

void check_finite(const at::Tensor& features, const Batch& batch, const Dataset& dataset) {
  const at::Tensor broken = features.flatten(1).isfinite().all(1).logical_not();
  if (!broken.any().item<bool>()) return;
  const auto row = broken.to(at::kByte).argmax().item<std::int64_t>();
  throw StageError(ErrorCode::kStageFailed,
                   "the model returned a non-finite feature for '" +
                       dataset.sample_name(batch.indices[static_cast<std::size_t>(row)]) + "'")
      .with_help("check the model's weights and the sample for damage");
}

/// True if the stages that use `part` read different samples in each epoch, so that its features
/// cannot be cached.
bool is_to_change(const std::string& part, const std::shared_ptr<const Dataset>& data) {
  return (part == "train" ? as_trained(data) : data)->describe().augmented;
}

std::string thousands(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

class Features final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
    FeaturesConfig config;
    reader.read("cache", config.cache);
    reader.read("batch_size", config.batch_size);
    config.pointer = reader.pointer();
    config.storage = runner::choice<at::ScalarType>(
        reader, "storage", {{"fp32", at::kFloat}, {"bf16", at::kBFloat16}});
    if (auto errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<runner::Stage>(std::make_unique<Features>(config));
  }

  explicit Features(const FeaturesConfig& config) : config_(config) {}

  bool uses_seed() const override { return false; }

  /// Outputs datasets that have the features' shapes but no values.
  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    const auto model = inputs.get<Model>("model");
    if (config_.cache && !model->has_frozen_features()) refuse(inputs.source("model"));
    runner::Outputs outputs;
    std::optional<runner::MemoryPlan> plan;
    std::int64_t table_bytes = 0, fitting = config_.batch_size;
    for (const std::string part : {"train", "validation", "test"}) {
      const auto dataset = inputs.find<Dataset>(part);
      if (!dataset || !context.node().wants(part)) continue;
      const DatasetDescription data = dataset->describe();
      outputs[part] = dataset;
      if (!config_.cache || data.size == 0 || is_to_change(part, dataset)) continue;
      const auto policy = inputs.get<MemoryPolicy>("memory");
      const ForwardToPlan forward{
          .name = inputs.source("model"),
          .data = data,
          .dataset = dataset.get(),
          .loader = dataset->loader(),
          .batch_size =
              std::min(config_.batch_size, policy->micro_batch.value_or(config_.batch_size)),
          .policy = *policy,
          .outline =
              [&] { return model->outline_frozen(inputs.get<Dataset>("train")->describe()); },
          .batch_option = config_.pointer.substr(1) + ".batch_size",
          .forward =
              [&](torch::nn::Module& network, const NamedTensors& batch) {
                return model->frozen_features(network, batch).at("features");
              }};
      const PlannedForward planned = plan_forward(forward, /*keeps_results=*/false, context);
      fitting = std::min(fitting, planned.batch_size);
      std::vector<std::int64_t> shape = planned.output.sizes().vec();
      shape[0] = data.size;
      FeatureTable table{
          .present = torch::empty({data.size}, at::TensorOptions(at::kBool).device(at::kMeta)),
          .tensors = {}};
      table.tensors.set("features",
                        torch::empty(shape, at::TensorOptions(config_.storage).device(at::kMeta)));
      for (const TensorSpec& spec : kept_with_features(data)) {
        std::vector<std::int64_t> rows = {data.size};
        rows.insert(rows.end(), spec.shape.begin(), spec.shape.end());
        table.tensors.set(spec.name,
                          torch::empty(rows, at::TensorOptions(spec.dtype).device(at::kMeta)));
      }
      if (!plan || plan->needed < planned.plan.needed) plan = planned.plan;
      const auto features = std::make_shared<FeatureDataset>(dataset, std::move(table));
      table_bytes += features->held().on_host;
      outputs[part] = features;
    }
    config_.batch_size = fitting;
    if (plan && !context.node().reuses) {
      if (at::Device(context.node().device).is_cpu())
        add_term(*plan, {"features", table_bytes, "of all parts"});
      context.plan(*std::move(plan));
    }
    return outputs;
  }

  runner::Outputs run(const runner::Inputs& inputs, RunContext& context) override {
    if (!config_.cache) context.say("features are not cached: cache is false");
    else if (!inputs.get<Model>("model")->has_frozen_features()) refuse(inputs.source("model"));
    std::optional<FrozenPart> frozen;
    runner::Outputs outputs;
    for (const std::string part : {"train", "validation", "test"}) {
      const auto dataset = inputs.find<Dataset>(part);
      if (dataset && context.node().wants(part))
        outputs[part] = features_of(part, dataset, inputs, frozen, context);
    }
    return outputs;
  }

 private:
  [[noreturn]] static void refuse(const std::string& model) {
    throw StageError(ErrorCode::kOptionConflict,
                     "'" + model + "' has no frozen part, so there are no features to cache")
        .with_help(
            "remove this stage and the inputs that refer to it, or choose a model such as "
            "linear_probe; for a few-shot model, set backbone.trainable: false and "
            "backbone.batch_norm: running");
  }

  std::shared_ptr<const Dataset> features_of(const std::string& part,
                                             const std::shared_ptr<const Dataset>& dataset,
                                             const runner::Inputs& inputs,
                                             std::optional<FrozenPart>& frozen,
                                             RunContext& context) const {
    const DatasetDescription description = dataset->describe();
    if (!config_.cache || description.size == 0) return dataset;
    if (is_to_change(part, dataset)) {
      context.say(part +
                  ": its samples change from epoch to epoch, so their features are computed in "
                  "every epoch");
      return dataset;
    }
    const std::filesystem::path file = context.node().folder / (part + ".safetensors");
    RankGroup* const group = sharing_group(part, context);
    auto table_of_earlier_run = reused(file, description, context);
    if (group) share_reused(*group, table_of_earlier_run, part, description, context);
    if (table_of_earlier_run)
      return std::make_shared<FeatureDataset>(dataset, *std::move(table_of_earlier_run));
    if (!frozen) {
      frozen.emplace(*inputs.get<Model>("model"), inputs.source("model"),
                     inputs.get<Dataset>("train")->describe(), *inputs.get<MemoryPolicy>("memory"),
                     context);
    }
    FeatureTable table =
        compute(part, dataset, *frozen, *inputs.get<MemoryPolicy>("memory"), context);
    const bool is_written = !group || group->rank() == 0;
    if (is_written && !context.node().smoke) write_features(file, table, description);
    const at::Tensor& features = table.tensors.at("features");
    context.say(part + ": " + thousands(features.size(0)) + " features of " +
                thousands(features.numel() / features.size(0)) + " values, " +
                thousands(static_cast<std::int64_t>(features.nbytes())) + " bytes");
    return std::make_shared<FeatureDataset>(dataset, std::move(table));
  }

  static std::optional<FeatureTable> reused(const std::filesystem::path& file,
                                            const DatasetDescription& description,
                                            RunContext& context) {
    std::error_code error;
    if (!context.node().reuses || !std::filesystem::exists(file, error)) return std::nullopt;
    try {
      return read_features(file, description);
    } catch (const StageError& damage) {
      context.not_reused(damage.what());
      return std::nullopt;
    }
  }

  /// Returns the group of the ranks that share the work on `part`; null if this rank works alone.
  static RankGroup* sharing_group(const std::string& part, const RunContext& context) {
    const runner::RankOfRun& ranks = context.node().ranks;
    return ranks.outputs_of_all.contains(part) ? group_of(ranks) : nullptr;
  }

  /// Only rank 0 knows about earlier runs; the other ranks read the file that it reuses.
  static void share_reused(RankGroup& group, std::optional<FeatureTable>& table,
                           const std::string& part, const DatasetDescription& description,
                           const RunContext& context) {
    constexpr const char* kReused = "reused";
    const bool is_reused = group.text_of_first(table ? kReused : "") == kReused;
    if (is_reused && !table)
      table =
          read_features(context.node().ranks.first_folder / (part + ".safetensors"), description);
  }

  FeatureTable compute(const std::string& part, const std::shared_ptr<const Dataset>& dataset,
                       FrozenPart& frozen, const MemoryPolicy& policy, RunContext& context) const {
    const DatasetDescription description = dataset->describe();
    const std::int64_t batch_size =
        std::min(config_.batch_size, policy.micro_batch.value_or(config_.batch_size));
    const std::int64_t rows = context.node().smoke
                                  ? std::min(description.size, kSmokeBatches * batch_size)
                                  : description.size;
    FeatureTable table{.present = torch::zeros({rows}, at::kBool), .tensors = {}};
    RankGroup* const group = sharing_group(part, context);
    const std::vector<RowRange> shares = shares_of_batches(rows, batch_size, group);
    const RowRange own = own_share_of_batches(rows, batch_size, group);
    RetriedLoader loader({dataset, order_of(own), batch_size}, policy, context);
    const PassProgress progress(part, loader.batches());
    for (std::int64_t done = 1; own.begin < own.end; ++done) {
      if (context.canceled()) throw runner::Canceled{};
      const std::optional<Batch> batch = loader.next();
      if (!batch) break;
      const at::Tensor features = frozen(*batch);
      check_finite(features, *batch, *dataset);
      const at::Tensor at_rows = torch::tensor(batch->indices, at::kLong);
      const auto put = [&](const std::string& name, const at::Tensor& values, at::ScalarType type) {
        add_column(table, name, values.sizes().slice(1), type);
        table.tensors.at(name).index_copy_(0, at_rows, values.to(type));
      };
      put("features", features, config_.storage);
      for (const TensorSpec& spec : kept_with_features(description))
        put(spec.name, (*batch)[spec.name], spec.dtype);
      table.present.index_fill_(0, at_rows, true);
      context.progress(progress.after(done, batch->indices.back() + 1 - own.begin));
    }
    if (group) exchange_rows(table, shares, description, config_.storage, *group);
    if (!table.tensors.contains("features")) {
      throw StageError(ErrorCode::kTooFewSamples, "no sample of '" + part + "' could be read");
    }
    return table;
  }

  FeaturesConfig config_;  // plan() reduces the batch size to what fits in memory
};

}  // namespace

extern const runner::StageKind kDataFeatures = {"data.features", Features::create};

namespace {

[[noreturn]] void damaged_table(const std::filesystem::path& path, const std::string& why) {
  throw runner::StageError(
      runner::ErrorCode::kDamagedWeights,
      "'" + path.string() + "' does not contain features for this data and model: " + why)
      .with_help("remove the file; the features will then be computed again");
}

void check(const std::filesystem::path& path, const NamedTensors& tensors, const std::string& name,
           const std::vector<std::int64_t>& shape, at::ScalarType type) {
  if (!tensors.contains(name)) damaged_table(path, "there is no '" + name + "'");
  if (tensors.at(name).sizes() != shape || tensors.at(name).scalar_type() != type) {
    damaged_table(path, "'" + name + "' has a different shape or type");
  }
}

}  // namespace

std::vector<TensorSpec> kept_with_features(const DatasetDescription& data) {
  std::vector<TensorSpec> kept;
  for (const TensorSpec& spec : data.tensors) {
    if (spec.name != "image") kept.push_back(spec);
  }
  return kept;
}

void write_features(const std::filesystem::path& path, const FeatureTable& table,
                    const DatasetDescription& data) {
  NamedTensors all = table.tensors;
  all.set("present", table.present);
  std::map<std::string, std::string> about = describe_data(data);
  about["format"] = "pt";
  about["sha256"] = tensor_digest(all);
  write_safetensors(path, all, about);
}

FeatureTable read_features(const std::filesystem::path& path, const DatasetDescription& data) {
  const Safetensors file = read_safetensors(path);
  const auto recorded = file.metadata.find("sha256");
  if (recorded == file.metadata.end() || recorded->second != tensor_digest(file.tensors)) {
    damaged_table(path, "its digest does not match its values");
  }
  for (const auto& [key, text] : describe_data(data)) {
    const auto found = file.metadata.find(key);
    if (found == file.metadata.end() || found->second != text)
      damaged_table(path, "its '" + key + "' is different");
  }
  check(path, file.tensors, "present", {data.size}, at::kBool);
  if (!file.tensors.contains("features")) damaged_table(path, "there is no 'features'");
  const at::Tensor& features = file.tensors.at("features");
  const bool is_table =
      features.dim() >= 2 && features.size(0) == data.size &&
      (features.scalar_type() == at::kFloat || features.scalar_type() == at::kBFloat16);
  if (!is_table) damaged_table(path, "'features' has a different shape or type");
  FeatureTable table{.present = file.tensors.at("present"), .tensors = {{"features", features}}};
  for (const TensorSpec& spec : kept_with_features(data)) {
    std::vector<std::int64_t> shape = {data.size};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    check(path, file.tensors, spec.name, shape, spec.dtype);
    table.tensors.set(spec.name, file.tensors.at(spec.name));
  }
  return table;
}

FeatureDataset::FeatureDataset(std::shared_ptr<const Dataset> source, FeatureTable table)
    : source_(std::move(source)), table_(std::move(table)) {
  auto images = std::make_shared<DatasetDescription>(source_->describe());
  description_ = {
      .size = images->size,
      .tensors = {{"features", table_.tensors.at("features").sizes().slice(1).vec(), at::kFloat}},
      .classes = images->classes,
      .has_order = images->has_order,
      .transform = images->transform,
      .captions = images->captions,
      .class_words = images->class_words};
  for (const TensorSpec& spec : kept_with_features(*images)) description_.tensors.push_back(spec);
  description_.source = std::move(images);
}

std::optional<NamedTensors> FeatureDataset::sample(std::int64_t /*epoch*/,
                                                   std::int64_t index) const {
  const std::int64_t row = index % table_.present.size(0);
  if (!table_.present.const_data_ptr<bool>()[row]) return std::nullopt;
  NamedTensors sample;
  for (const auto& [name, tensor] : table_.tensors) {
    sample.set(name, name == "features" ? tensor[row].to(at::kFloat) : tensor[row]);
  }
  return sample;
}

runner::HeldMemory FeatureDataset::held() const {
  std::size_t bytes = table_.present.nbytes();
  for (const auto& [name, tensor] : table_.tensors) bytes += tensor.nbytes();
  return {.on_host = static_cast<std::int64_t>(bytes)};
}

LoaderOptions FeatureDataset::loader() const {
  LoaderOptions options = source_->loader();
  options.workers = 0;
  return options;
}

}  // namespace stages
