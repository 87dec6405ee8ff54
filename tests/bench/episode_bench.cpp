// Training steps on episodes with the real stages, in blocks. Measures everything that a step of
// train.episodic does, including reading the episode. The images are in memory.

#include <torch/types.h>

#include "stages/artifact/episode_set.h"
#include "stages/artifact/loader.h"
#include "stages/artifact/model.h"
#include "stages/machine/threads.h"
#include "stages/stages.h"
#include "stages/weights/safetensors.h"
#include "tests/bench/training_blocks.h"

namespace {

using Json = nlohmann::ordered_json;

/// Random images, divided into classes.
class ClassImages final : public stages::Dataset {
 public:
  ClassImages(std::int64_t classes, std::int64_t per_class, std::int64_t side)
      : per_class_(per_class), side_(side) {
    images_ = torch::randn({classes * per_class, 3, side, side}, at::detail::createCPUGenerator(7));
    for (std::int64_t i = 0; i < classes; ++i) names_.push_back("class" + std::to_string(i));
  }

  stages::DatasetDescription describe() const override {
    stages::DatasetDescription description;
    description.size = images_.size(0);
    description.tensors = {{"image", {3, side_, side_}, at::kFloat}, {"label", {}, at::kLong}};
    description.classes = names_;
    return description;
  }
  std::optional<stages::NamedTensors> sample(std::int64_t, std::int64_t index) const override {
    return stages::NamedTensors{{"image", images_[index]},
                                {"label", torch::tensor(index / per_class_)}};
  }
  std::vector<std::int64_t> labels() const override {
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < images_.size(0); ++i) labels.push_back(i / per_class_);
    return labels;
  }
  std::string sample_name(std::int64_t index) const override { return std::to_string(index); }
  stages::LoaderOptions loader() const override { return {}; }

 private:
  const std::int64_t per_class_, side_;
  at::Tensor images_;
  std::vector<std::string> names_;
};

}  // namespace

/// One argument, JSON: {"folder": where the initial weights and the first episodes are written for
/// the peer, "episodes": their number, "threads", "ways", "shots", "queries", "image_size",
/// "steps": more than will be requested, "optimizer": {}}.
int main(int, char** arguments) {
  const WorkerMemory memory;
  const auto options = Json::parse(arguments[1]);
  const std::filesystem::path folder = options.at("folder").get<std::string>();
  const auto number = [&](const char* name) { return options.at(name).get<std::int64_t>(); };
  stages::use_threads(options.at("threads").get<int>());
  const auto schemas = runner::SchemaSet::load(runner::embedded_schemas());
  if (!schemas) throw std::logic_error(schemas.errors()[0].message);
  BlockContext context(folder);
  const stages::EpisodeShape shape = {
      .ways = number("ways"), .shots = number("shots"), .queries = number("queries")};

  const auto data =
      std::make_shared<ClassImages>(4 * shape.ways, shape.per_class(), number("image_size"));
  const auto model_stage = make(stages::kModelFewShotTransformer, *schemas,
                                {{"backbone", {{"kind", "conv"}, {"blocks", 4}}}});
  const auto policy_stage =
      make(stages::kMemoryPolicy, *schemas, {{"activation_checkpointing", "none"}});
  const auto train_stage = make(stages::kTrainEpisodic, *schemas,
                                {{"ways", shape.ways},
                                 {"shots", shape.shots},
                                 {"queries", shape.queries},
                                 {"episodes", number("steps")},
                                 {"epochs", 1},
                                 {"log_every", 1},
                                 {"optimizer", options.at("optimizer")}});
  const auto model = model_stage->run(runner::Inputs({}), context).at("model");

  const std::uint64_t seed = context.node().seed;
  const stages::EpisodeSet episodes(
      data, {.shape = shape, .episodes = number("steps"), .seed = seed, .draws_anew = true},
      "the training data");
  const auto network = runner::Inputs({{"model", {model}}})
                           .get<stages::Model>("model")
                           ->build(episodes.describe(), seed);
  stages::NamedTensors weights, first;
  for (const auto& item : network->named_parameters())
    weights.set(item.key(), item.value().detach());
  stages::write_safetensors(folder / "weights.safetensors", weights);
  for (std::int64_t episode = 0; episode < number("episodes"); ++episode)
    first.set("episode" + std::to_string(episode),
              episodes.sample(/*epoch=*/0, episode)->at("image"));
  stages::write_safetensors(folder / "episodes.safetensors", first);

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
