// Contrastive training steps of CLIP with the real stages, in blocks. Measures everything that a
// step of train.contrastive does, including reading the batch. The images are in memory; each pair
// has its own caption.

#include <algorithm>

#include <torch/types.h>

#include "stages/artifact/loader.h"
#include "stages/artifact/model.h"
#include "stages/machine/threads.h"
#include "stages/stages.h"
#include "stages/weights/safetensors.h"
#include "tests/bench/training_blocks.h"

namespace {

using Json = nlohmann::ordered_json;

/// `batch` random images with their captions, repeated.
class RepeatedPairs final : public stages::Dataset {
 public:
  RepeatedPairs(std::int64_t size, std::int64_t side, const std::vector<std::string>& captions)
      : size_(size), side_(side), captions_(captions) {
    const auto batch = static_cast<std::int64_t>(captions.size());
    images = torch::randn({batch, 3, side, side}, at::detail::createCPUGenerator(7));
  }

  stages::DatasetDescription describe() const override {
    stages::DatasetDescription description;
    description.size = size_;
    description.tensors = {{"image", {3, side_, side_}, at::kFloat}, {"caption", {}, at::kLong}};
    description.captions = captions_;
    return description;
  }
  std::optional<stages::NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    const std::int64_t row = index % images.size(0);
    return stages::NamedTensors{{"image", images[row]}, {"caption", torch::tensor(row)}};
  }
  std::string sample_name(std::int64_t index) const override { return std::to_string(index); }
  stages::LoaderOptions loader() const override { return {}; }
  /// In stored order, so that each batch contains each pair once.
  stages::SampleOrder epoch_order(std::uint64_t, std::int64_t) const override {
    return stages::sequential_order(size_);
  }

  at::Tensor images;

 private:
  const std::int64_t size_, side_;
  const std::vector<std::string> captions_;
};

}  // namespace

/// One argument, JSON: {"folder": where the initial weights and the pairs are written for the peer,
/// "threads", "image_size", "captions": one for each pair of a batch, "trims": whether captions are
/// trimmed to the longest, "parts": how many parts a batch is split into; more than 1 means two
/// passes, "steps": more than will be requested, "optimizer": {}, "model": {}}. The first answer
/// has "tokens", the length of the longest caption.
int main(int, char** arguments) {
  const WorkerMemory memory;
  const auto options = Json::parse(arguments[1]);
  const std::filesystem::path folder = options.at("folder").get<std::string>();
  const auto captions = options.at("captions").get<std::vector<std::string>>();
  const auto batch = static_cast<std::int64_t>(captions.size()),
             parts = options.at("parts").get<std::int64_t>();
  stages::use_threads(options.at("threads").get<int>());
  const auto schemas = runner::SchemaSet::load(runner::embedded_schemas());
  if (!schemas) throw std::logic_error(schemas.errors()[0].message);
  BlockContext context(folder);

  const auto model_stage = make(stages::kModelClip, *schemas, options.at("model"));
  const auto policy_stage =
      make(stages::kMemoryPolicy, *schemas,
           {{"micro_batch", batch / parts}, {"two_pass", parts > 1 ? "on" : "off"}});
  const auto train_stage = make(stages::kTrainContrastive, *schemas,
                                {{"epochs", 1},
                                 {"batch_size", batch},
                                 {"log_every", 1},
                                 {"monitor", "loss"},
                                 {"gradient_clip_norm", nullptr},
                                 {"trim_captions", options.at("trims")},
                                 {"optimizer", options.at("optimizer")}});
  const auto data = std::make_shared<RepeatedPairs>(batch * options.at("steps").get<std::int64_t>(),
                                                    options.at("image_size"), captions);
  const auto made = model_stage->run(runner::Inputs({}), context).at("model");
  const auto model = runner::Inputs({{"model", {made}}}).get<stages::Model>("model");
  const auto texts = dynamic_cast<const stages::ImageTextModel&>(*model).tokenized(captions);

  stages::NamedTensors weights;
  for (const auto& item : model->build(data->describe(), context.node().seed)->named_parameters())
    weights.set(item.key(), item.value().detach());
  stages::write_safetensors(folder / "weights.safetensors", weights);
  stages::write_safetensors(folder / "pairs.safetensors",
                            {{"images", data->images}, {"tokens", texts.ids}});
  report({{"tokens", *std::ranges::max_element(texts.lengths)}});
  context.wait();
  try {
    train_stage->run(
        runner::Inputs({{"train", {data}},
                        {"model", {made}},
                        {"memory", {policy_stage->run(runner::Inputs({}), context).at("memory")}}}),
        context);
  } catch (const runner::Canceled&) {
  }
  return 0;
}
