#include "stages/model/clip_network.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/model/initializer.h"
#include "stages/model/pretrained.h"
#include "stages/model/weight_names.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ClipOptions published(std::int64_t patch) {
  ClipOptions clip;
  clip.image.block = {.hidden_size = 768,
                      .intermediate_size = 3072,
                      .num_attention_heads = 12,
                      .layer_norm_eps = 1e-5};
  clip.image.num_hidden_layers = clip.text.num_hidden_layers = 12;
  clip.image.patch_size = patch;
  clip.image.image_size = 224;
  clip.text.block = {.hidden_size = 512,
                     .intermediate_size = 2048,
                     .num_attention_heads = 8,
                     .layer_norm_eps = 1e-5};
  clip.text.vocab_size = 49408;
  clip.text.context_length = 77;
  clip.projection_dim = 512;
  return clip;
}

ClipOptions small() {
  ClipOptions clip;
  clip.image.block = clip.text.block = {
      .hidden_size = 8, .intermediate_size = 16, .num_attention_heads = 2, .layer_norm_eps = 1e-5};
  clip.image.num_hidden_layers = clip.text.num_hidden_layers = 2;
  clip.image.patch_size = 4;
  clip.image.image_size = 8;
  clip.text.vocab_size = 10;
  clip.text.context_length = 6;
  clip.text.end_id = 9;
  clip.projection_dim = 6;
  clip.class_count = 3;
  return clip;
}

std::int64_t numbers_of(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : module.parameters()) count += parameter.numel();
  return count;
}

TEST(ClipNetwork, HasThePublishedNumberOfWeights) {
  const at::TensorOptions meta = at::TensorOptions(at::kFloat).device(at::kMeta);
  const ClipNetwork of_32(published(32), meta), of_16(published(16), meta);
  EXPECT_EQ(numbers_of(of_32), 151'277'313);
  EXPECT_EQ(numbers_of(of_16), 149'620'737);
  EXPECT_EQ(of_32.parameters().size(), 398U);
  EXPECT_EQ(numbers_of(of_32.text_tower()), 63'165'952);
  EXPECT_EQ(numbers_of(of_32.image_tower()), 87'456'000);
}

/// Returns the weights as stored in a file in OpenAI's or open_clip's format.
NamedTensors as_open_clip(const torch::nn::Module& network) {
  NamedTensors saved;
  std::map<std::string, std::vector<at::Tensor>> fused;
  for (const auto& item : network.named_parameters()) {
    const std::string& name = item.key();
    if (name.starts_with("class_head.")) continue;
    const at::Tensor weight = item.value().detach().clone();
    const auto theirs = library_name(WeightLayout::kOpenClip, name);
    if (theirs) {
      const bool is_transposed =
          name == "visual_projection.weight" || name == "text_projection.weight";
      saved.set(*theirs, is_transposed ? weight.t().contiguous() : weight);
    }
  }
  for (const char* tower : {"vision_model", "text_model"}) {
    for (int layer = 0; layer < 2; ++layer) {
      for (const char* part : {"weight", "bias"}) {
        const std::string before =
            std::string(tower) + ".encoder.layers." + std::to_string(layer) + ".self_attn.";
        std::vector<at::Tensor> rows;
        for (const char* one : {"q_proj.", "k_proj.", "v_proj."})
          rows.push_back(network.named_parameters()[before + one + part].detach());
        saved.set(library_name(WeightLayout::kOpenClip, before + "qkv." + part).value(),
                  torch::cat(rows));
      }
    }
  }
  return saved;
}

TEST(ClipNetwork, LoadsOpenClipWeightsBitForBit) {
  ClipNetwork one(small()), other(small());
  initialize(one, {8, 2, 0.02, 1}, 3, [](std::string_view name) { return name != "logit_scale"; });
  initialize(other, {8, 2, 0.02, 1}, 4,
             [](std::string_view name) { return name != "logit_scale"; });
  {
    const torch::NoGradGuard no_graph;
    at::Tensor(one.logit_scale()).fill_(1.5);
    at::Tensor(other.logit_scale()).fill_(0);
  }
  const PretrainedReport report =
      load_pretrained(other, as_open_clip(one), PositionResize::kBicubic);
  EXPECT_EQ(report.misfits(), "");
  EXPECT_THAT(report.random, ElementsAre("class_head.weight", "class_head.bias"));
  EXPECT_THAT(report.left_out, IsEmpty());
  for (const auto& item : one.named_parameters()) {
    if (item.key().starts_with("class_head.")) continue;
    EXPECT_TRUE(item.value().equal(other.named_parameters()[item.key()])) << item.key();
  }
}

TEST(ClipNetwork, PositionIdsAreIgnoredButUnknownLayersAreRejected) {
  ClipNetwork network(small());
  NamedTensors saved;
  for (const auto& item : network.named_parameters()) {
    if (!item.key().starts_with("class_head."))
      saved.set(item.key(), torch::zeros_like(item.value()));
  }
  saved.set("text_model.embeddings.position_ids", torch::arange(6).unsqueeze(0));
  saved.set("vision_model.embeddings.position_ids", torch::arange(5).unsqueeze(0));
  EXPECT_TRUE(load_pretrained(network, saved, PositionResize::kBicubic).fits());
  saved.set("text_model.encoder.layers.2.mlp.fc1.bias", torch::zeros({16}));
  const PretrainedReport report = load_pretrained(network, saved, PositionResize::kBicubic);
  EXPECT_THAT(report.unexpected, ElementsAre("text_model.encoder.layers.2.mlp.fc1.bias"));
}

TEST(ClipNetwork, EmbeddingsHaveLengthOne) {
  ClipNetwork network(small());
  initialize(network, {8, 2, 0.02, 1}, 3,
             [](std::string_view name) { return name != "logit_scale"; });
  const torch::NoGradGuard no_graph;
  const at::Tensor images = network.embed_images(torch::randn({4, 3, 8, 8})),
                   texts = network.embed_texts(
                       torch::tensor(std::vector<std::int64_t>{8, 1, 9, 8, 2, 9}).view({2, 3}));
  EXPECT_EQ(images.sizes(), (std::vector<std::int64_t>{4, 6}));
  EXPECT_EQ(texts.sizes(), (std::vector<std::int64_t>{2, 6}));
  EXPECT_LT((images.norm(2, 1) - 1).abs().max().item<double>(), 1e-6);
  EXPECT_LT((texts.norm(2, 1) - 1).abs().max().item<double>(), 1e-6);
  EXPECT_EQ(network.classify(images).size(1), 3);
}

}  // namespace
}  // namespace stages
