// Runs random small recipes with the budget that their plan needs, and with less: accepted recipes
// never run out of memory, and rejected ones report their bytes.

#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/types.h>

#include "stages/artifact/model.h"
#include "stages/machine/cpu_pool.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/whole_run.h"

namespace stages {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;
using runner::ArtifactType;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  template <typename T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[engine_() % choices.size()];
  }
  double share() { return static_cast<double>(engine_() % 1000) / 1000; }

 private:
  std::mt19937_64 engine_;
};

struct RandomLayer {
  std::int64_t out, kernel, stride, groups;
  bool normalizes;
};

/// A convolution with batch normalization or a bias, on any device.
struct RandomConvolution : torch::nn::Module {
  RandomConvolution(std::int64_t in, const RandomLayer& layer, at::Device device)
      : layer(layer), groups(in == layer.out ? layer.groups : 1) {
    const auto parameter = [&](const char* name, at::IntArrayRef shape) {
      at::Tensor made = torch::empty(shape, at::TensorOptions(device));
      if (!device.is_meta()) made.uniform_(-0.1, 0.1);
      return register_parameter(name, std::move(made));
    };
    weight = parameter("weight", {layer.out, in / groups, layer.kernel, layer.kernel});
    bias = parameter("bias", {layer.out});
    if (!layer.normalizes) return;
    scale = parameter("scale", {layer.out});
    mean = register_buffer("mean", torch::zeros({layer.out}, at::TensorOptions(device)));
    variance = register_buffer("variance", torch::ones({layer.out}, at::TensorOptions(device)));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = torch::conv2d(x, weight, layer.normalizes ? at::Tensor() : bias,
                                       layer.stride, layer.kernel / 2, /*dilation=*/1, groups);
    if (!layer.normalizes) return y.relu();
    return torch::batch_norm(y, scale, bias, mean, variance, is_training(), 0.1, 1e-5,
                             /*cudnn_enabled=*/false)
        .relu();
  }
  const RandomLayer layer;
  const std::int64_t groups;
  at::Tensor weight, bias, scale, mean, variance;
};

/// Several convolutions and a classifier.
class ConvolutionalModel final : public Model {
 public:
  explicit ConvolutionalModel(std::vector<RandomLayer> layers) : layers_(std::move(layers)) {}

  std::shared_ptr<torch::nn::Module> build(const DatasetDescription& data,
                                           std::uint64_t seed) const override {
    torch::manual_seed(seed);
    return network(data, at::kCPU);
  }
  std::shared_ptr<torch::nn::Module> outline(const DatasetDescription& data) const override {
    return network(data, at::kMeta);
  }
  NamedTensors forward(torch::nn::Module& network, const NamedTensors& inputs) const override {
    return {
        {"logits", dynamic_cast<torch::nn::SequentialImpl&>(network).forward(inputs.at("image"))}};
  }
  bool mixes_samples() const override {
    return std::ranges::any_of(layers_, &RandomLayer::normalizes);
  }

 private:
  std::shared_ptr<torch::nn::SequentialImpl> network(const DatasetDescription& data,
                                                     at::Device device) const {
    torch::nn::Sequential network;
    std::int64_t in = 3;
    for (const RandomLayer& layer : layers_) {
      network->push_back(RandomConvolution(in, layer, device));
      in = layer.out;
    }
    network->push_back(torch::nn::Functional([](const at::Tensor& x) { return x.mean({2, 3}); }));
    network->push_back(TinyLinear(in, static_cast<std::int64_t>(data.classes.size()), device));
    return network.ptr();
  }

  const std::vector<RandomLayer> layers_;
};

/// A recipe, with the options of its stages that have no schema.
struct RandomRecipe {
  int threads = 1, items = 1;
  std::int64_t samples = 8, image_size = 32, classes = 3;
  LoaderOptions loader;
  std::vector<RandomLayer> layers;  // of a convolutional network; empty: a tower
  Json tower, memory, train;
};

RandomRecipe random_recipe(Random& random) {
  RandomRecipe recipe;
  recipe.threads = random.one_of({1, 2, 3, 4});
  recipe.items = random.one_of({1, 1, 2});
  recipe.classes = random.one_of<std::int64_t>({2, 3, 10});
  recipe.loader.workers = random.one_of<std::int64_t>({0, 1, 2});
  const auto batch = random.one_of<std::int64_t>({1, 2, 3, 5, 8});
  recipe.samples =
      batch * random.one_of<std::int64_t>({1, 2}) + random.one_of<std::int64_t>({0, 1});
  bool may_cut = true;
  if (random.one_of({true, true, false})) {
    const auto patch = random.one_of<std::int64_t>({8, 16, 32});
    recipe.image_size = patch * random.one_of<std::int64_t>({2, 3, 4, 7});
    const auto width = random.one_of<std::int64_t>({32, 48, 64, 96, 128});
    recipe.tower = {{"hidden_size", width},
                    {"intermediate_size", 4 * width},
                    {"num_hidden_layers", random.one_of({1, 2, 3})},
                    {"num_attention_heads", random.one_of({1, 2, 4})},
                    {"patch_size", patch},
                    {"hidden_act", random.one_of<std::string>({"quick_gelu", "gelu"})},
                    {"dropout", random.one_of({0.0, 0.1})},
                    {"attention_dropout", random.one_of({0.0, 0.0, 0.1})},
                    {"drop_path", random.one_of({0.0, 0.1})}};
  } else {
    recipe.image_size = random.one_of<std::int64_t>({16, 24, 32, 40, 64});
    const bool normalizes = random.one_of({true, false});
    const auto layers = random.one_of({1, 2, 3, 4});
    for (int i = 0; i < layers; ++i) {
      const auto width = random.one_of<std::int64_t>({16, 20, 32, 48, 64});
      const bool is_grouped = i > 0 && width == recipe.layers.back().out;
      recipe.layers.push_back(
          {.out = width,
           .kernel = random.one_of<std::int64_t>({1, 3, 3, 5, 7}),
           .stride = random.one_of<std::int64_t>({1, 1, 2}),
           .groups = is_grouped ? random.one_of<std::int64_t>({1, 4, width}) : 1,
           .normalizes = normalizes});
    }
    may_cut = !normalizes;
  }
  recipe.memory = {{"precision", random.one_of<std::string>({"fp32", "fp32", "bf16"})},
                   {"layout", random.one_of<std::string>({"auto", "contiguous", "channels_last"})}};
  if (may_cut)
    recipe.memory["micro_batch"] = random.one_of<std::int64_t>({batch, (batch + 1) / 2, 1});
  if (!recipe.tower.empty())
    recipe.memory["activation_checkpointing"] = random.one_of<std::string>({"none", "block"});
  recipe.train = {
      {"epochs", random.one_of({1, 2})},
      {"batch_size", batch},
      {"optimizer",
       random.one_of({Json{{"kind", "adamw"}, {"learning_rate", 0.001}},
                      Json{{"kind", "sgd"}, {"learning_rate", 0.001}, {"momentum", 0.9}}})}};
  if (random.one_of({true, false})) recipe.train["gradient_clip_norm"] = 1;
  return recipe;
}

/// The kinds that a recipe needs in addition to the worker's. Stages are created by stateless
/// functions, which find their recipe here.
const RandomRecipe* making = nullptr;

class NoiseOfRecipe final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader&) {
    return std::unique_ptr<runner::Stage>(std::make_unique<NoiseOfRecipe>());
  }
  runner::Outputs run(const runner::Inputs&, runner::RunContext&) override {
    runner::Outputs outputs;
    for (const char* part : {"train", "validation", "test"}) {
      const auto images =
          std::make_shared<NoiseImages>(making->samples, making->image_size, making->classes);
      images->options = making->loader;
      outputs.emplace(part, images);
    }
    return outputs;
  }
};
const runner::StageKind kNoiseOfRecipe{"data.noise", NoiseOfRecipe::create};

class ConvolutionsOfRecipe final : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader&) {
    return std::unique_ptr<runner::Stage>(std::make_unique<ConvolutionsOfRecipe>());
  }
  runner::Outputs run(const runner::Inputs&, runner::RunContext&) override {
    return {{"model", std::make_shared<ConvolutionalModel>(making->layers)}};
  }
};
const runner::StageKind kConvolutionsOfRecipe{"model.convolutions", ConvolutionsOfRecipe::create};

/// The training nodes of a foreach, then their evaluations, in the order of compile().
runner::Graph graph_of(const RandomRecipe& recipe, std::optional<std::string> budget) {
  Json memory = recipe.memory;
  if (budget) memory["budget"] = *budget;
  runner::Graph graph{"test", 0, std::nullopt, "cpu", 1, {}};
  graph.nodes = {node("data", "data.noise"),
                 recipe.tower.empty() ? node("model", "model.convolutions")
                                      : node("model", "model.clip_vision", recipe.tower.dump()),
                 node("memory", "memory.policy", memory.dump())};
  const std::size_t first = graph.nodes.size();
  for (int item = 0; item < recipe.items; ++item) {
    runner::Node train =
        node("train." + std::to_string(item), "train.supervised", recipe.train.dump());
    train.inputs = {{"train", 0, "train", ArtifactType::kDataset},
                    {"validation", 0, "validation", ArtifactType::kDataset},
                    {"model", 1, "model", ArtifactType::kModel},
                    {"memory", 2, "memory", ArtifactType::kMemoryPolicy}};
    graph.nodes.push_back(std::move(train));
  }
  for (int item = 0; item < recipe.items; ++item) {
    runner::Node evaluate = node("evaluate." + std::to_string(item), "evaluate.classification",
                                 R"({"batch_size": )" + std::to_string(recipe.samples) + "}");
    evaluate.inputs = {{"test", 0, "test", ArtifactType::kDataset},
                       {"checkpoint", first + static_cast<std::size_t>(item), "checkpoint",
                        ArtifactType::kCheckpoint},
                       {"memory", 2, "memory", ArtifactType::kMemoryPolicy}};
    graph.nodes.push_back(std::move(evaluate));
  }
  return graph;
}

/// Returns a size such as "12.346MiB", rounded up to thousandths.
std::string mebibytes(double bytes) {
  const auto thousandths = static_cast<std::int64_t>(std::ceil(bytes / (1 << 20) * 1000));
  std::string rest = std::to_string(thousandths % 1000);
  rest.insert(0, 3 - rest.size(), '0');
  return std::to_string(thousandths / 1000) + "." + rest + "MiB";
}

/// A run of a recipe with the worker's allocator. Each run starts with no reserved memory.
class RunOfRecipe {
 public:
  RunOfRecipe(const RandomRecipe& recipe, std::optional<std::string> budget)
      : run((making = &recipe, graph_of(recipe, std::move(budget))),
            {&kNoiseOfRecipe, &kConvolutionsOfRecipe}) {}

 private:
  const CpuPool pool_;

 public:
  WholeRun run;
};

/// Describes a recipe.
std::string text_of(const RandomRecipe& recipe, int seed) {
  std::string layers;
  for (const RandomLayer& one : recipe.layers) {
    layers += std::to_string(one.out) + " channels by " + std::to_string(one.kernel) + " of " +
              std::to_string(one.groups) + " with stride " + std::to_string(one.stride) + ", ";
  }
  return "seed " + std::to_string(seed) + ", " + std::to_string(recipe.threads) +
         " threads, images of " + std::to_string(recipe.image_size) + ", " +
         (recipe.tower.empty() ? layers : recipe.tower.dump()) + recipe.memory.dump() +
         recipe.train.dump();
}

/// Tries 60 recipes with RETORT_DEEP=1; a larger value sets their number.
int recipes() {
  const char* const deep = std::getenv("RETORT_DEEP");
  if (!deep) return 12;
  return std::atoi(deep) > 1 ? std::atoi(deep) : 60;
}

TEST(RandomRecipes, AcceptedRunsFitAndRejectedOnesReportTheirBytes) {
  const int before = at::get_num_threads();
  for (int seed = 0; seed < recipes(); ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const RandomRecipe recipe = random_recipe(random);
    const std::string which = text_of(recipe, seed);
    at::set_num_threads(recipe.threads);
    std::int64_t needed = 0;
    {
      RunOfRecipe unlimited(recipe, std::nullopt);
      ASSERT_TRUE(unlimited.run.plan().empty()) << which;
      needed = unlimited.run.needed();
      ASSERT_GT(needed, 0) << which;
    }
    {
      RunOfRecipe accepted(recipe, mebibytes(static_cast<double>(needed)));
      EXPECT_TRUE(accepted.run.plan().empty()) << which;
      EXPECT_EQ(accepted.run.run(), runner::ExitCode::kDone) << which << "\n"
                                                             << accepted.run.failures();
    }
    RunOfRecipe refused(recipe,
                        mebibytes((0.2 + 0.79 * random.share()) * static_cast<double>(needed)));
    const runner::Diagnostics errors = refused.run.plan();
    ASSERT_FALSE(errors.empty()) << which;
    EXPECT_EQ(errors.front().code, runner::ErrorCode::kOutOfMemory) << which;
    EXPECT_THAT(errors.front().message,
                testing::ContainsRegex("needs [0-9.]+ [KMG]iB .*may use [0-9.]+ [KMG]iB .* "
                                       "[0-9.]+ ([KMG]i)?B too much"))
        << which;
  }
  at::set_num_threads(before);
}

}  // namespace
}  // namespace stages
