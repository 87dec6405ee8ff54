// Training steps of a model with the real stages, in blocks. Measures everything that a step of
// train.supervised does, including reading the batch.

#include <algorithm>
#include <fstream>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/artifact/loader.h"
#include "stages/artifact/model.h"
#include "stages/machine/threads.h"
#include "stages/stages.h"
#include "stages/weights/safetensors.h"
#include "tests/bench/resnet.h"
#include "tests/bench/training_blocks.h"

namespace {

using Json = nlohmann::ordered_json;

/// `batch` random images, repeated.
class RepeatedImages final : public stages::Dataset {
 public:
  RepeatedImages(std::int64_t size, std::int64_t batch, std::int64_t side, std::int64_t classes)
      : size_(size), side_(side), classes_(classes) {
    at::Generator generator = at::detail::createCPUGenerator(7);
    images = torch::randn({batch, 3, side, side}, generator);
    labels = torch::arange(batch).remainder(classes);
  }

  stages::DatasetDescription describe() const override {
    stages::DatasetDescription description;
    description.size = size_;
    description.tensors = {{"image", {3, side_, side_}, at::kFloat}, {"label", {}, at::kLong}};
    for (std::int64_t i = 0; i < classes_; ++i)
      description.classes.push_back("class" + std::to_string(i));
    return description;
  }
  std::optional<stages::NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    const std::int64_t row = index % images.size(0);
    return stages::NamedTensors{{"image", images[row]}, {"label", labels[row]}};
  }
  std::string sample_name(std::int64_t index) const override { return std::to_string(index); }
  stages::LoaderOptions loader() const override { return {}; }

  at::Tensor images, labels;

 private:
  const std::int64_t size_, side_, classes_;
};

/// Returns the model given by `options`, including "kind", or the ResNet that only this program
/// has.
std::shared_ptr<const stages::Model> model_of(Json options, const runner::SchemaSet& schemas,
                                              BlockContext& context) {
  const std::string kind = options.value("kind", std::string(stages::kModelClipVision.name));
  options.erase("kind");
  if (kind == "resnet18") return std::make_shared<ResNetModel>();
  const auto known =
      std::ranges::find(stages::all_kinds(), kind, [](const auto* one) { return one->name; });
  const runner::Outputs made = make(**known, schemas, options)->run(runner::Inputs({}), context);
  return runner::Inputs({{"model", {made.at("model")}}}).get<stages::Model>("model");
}

/// All files in `root`; without a root, the same random images repeatedly.
std::shared_ptr<const stages::Dataset> data_of(const Json& options,
                                               const runner::SchemaSet& schemas,
                                               BlockContext& context) {
  const auto batch = options.at("batch").get<std::int64_t>(),
             side = options.at("image_size").get<std::int64_t>();
  if (!options.contains("root")) {
    return std::make_shared<RepeatedImages>(batch * options.at("steps").get<std::int64_t>(), batch,
                                            side, options.at("classes").get<std::int64_t>());
  }
  const Json folder = {{"root", options.at("root")},
                       {"image_size", side},
                       {"split", {{"train", 1.0}, {"test", 0.0}}},
                       {"loader", {{"workers", 1}, {"drop_last", true}}}};
  const runner::Outputs made =
      make(stages::kDataImageFolder, schemas, folder)->run(runner::Inputs({}), context);
  return runner::Inputs({{"train", {made.at("train")}}}).get<stages::Dataset>("train");
}

/// Writes the initial weights and the samples to `folder` for the peer, in the order in which the
/// trainer will request them: as tensors, or as file names.
void write_beginning(const std::filesystem::path& folder, const stages::Dataset& data,
                     const torch::nn::Module& network, std::uint64_t seed, std::int64_t batch,
                     std::int64_t steps) {
  stages::NamedTensors weights;  // including a frozen base
  for (const auto& item : network.named_parameters())
    weights.set(item.key(), item.value().detach());
  for (const auto& item : network.named_buffers()) weights.set(item.key(), item.value());
  stages::write_safetensors(folder / "weights.safetensors", weights);
  const std::int64_t steps_of_epoch = data.describe().size / batch;
  std::vector<std::int64_t> order;
  for (std::int64_t step = 0; step < steps; ++step) {
    const stages::SampleOrder epoch = data.epoch_order(seed, step / steps_of_epoch);
    const std::int64_t first = step % steps_of_epoch * batch;
    for (std::int64_t place = first; place < first + batch; ++place) order.push_back(epoch[place]);
  }
  if (const auto* repeated = dynamic_cast<const RepeatedImages*>(&data)) {
    stages::write_safetensors(folder / "data.safetensors",
                              {{"images", repeated->images},
                               {"labels", repeated->labels},
                               {"order", torch::tensor(order).remainder(batch)}});
    return;
  }
  const std::vector<std::int64_t> labels = data.labels();
  Json samples = Json::array();
  for (const std::int64_t index : order) {
    samples.push_back({data.sample_name(index), labels.at(static_cast<std::size_t>(index))});
  }
  std::ofstream(folder / "samples.json") << samples.dump();
}

}  // namespace

/// One argument, JSON: {"folder": where weights and data are written for the peer, "threads",
/// "batch", "image_size", "classes", "steps": more than will be requested, "optimizer": {},
/// "model": {}, "recompute": whether each block's activations are recomputed in the backward pass,
/// and optionally "root": a folder of image files}.
int main(int, char** arguments) {
  const WorkerMemory memory;
  const auto options = Json::parse(arguments[1]);
  const std::filesystem::path folder = options.at("folder").get<std::string>();
  const auto batch = options.at("batch").get<std::int64_t>(),
             steps = options.at("steps").get<std::int64_t>();
  stages::use_threads(options.at("threads").get<int>());
  const auto schemas = runner::SchemaSet::load(runner::embedded_schemas());
  if (!schemas) throw std::logic_error(schemas.errors()[0].message);
  BlockContext context(folder);

  const auto model = model_of(options.at("model"), *schemas, context);
  const auto data = data_of(options, *schemas, context);
  const auto policy_stage =
      make(stages::kMemoryPolicy, *schemas,
           {{"activation_checkpointing", options.at("recompute") ? "block" : "none"}});
  const std::int64_t steps_of_epoch = data->describe().size / batch;
  const auto train_stage = make(stages::kTrainSupervised, *schemas,
                                {{"epochs", (steps + steps_of_epoch - 1) / steps_of_epoch},
                                 {"batch_size", batch},
                                 {"log_every", 1},
                                 {"optimizer", options.at("optimizer")},
                                 {"schedule", {{"kind", "constant"}}}});
  const std::uint64_t seed = context.node().seed;
  write_beginning(folder, *data, *model->build(data->describe(), seed), seed, batch, steps);
  report({{"ready", true}});
  context.wait();
  try {
    train_stage->run(
        runner::Inputs({{"train", {data}},
                        {"model", {model}},
                        {"memory", {policy_stage->run(runner::Inputs({}), context).at("memory")}}}),
        context);
  } catch (const runner::Canceled&) {
  }
  return 0;
}
