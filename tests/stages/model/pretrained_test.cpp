#include "stages/model/pretrained.h"

#include <fstream>
#include <ostream>
#include <sstream>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/model/clip_network.h"
#include "stages/model/exported.h"
#include "stages/model/vision_tower.h"
#include "stages/weights/weights.h"
#include "tests/support/refused.h"
#include "tests/support/shared_data.h"

namespace stages {
namespace {

using testing::HasSubstr;

ImageClassifierOptions small(bool is_clip, bool fused) {
  ImageClassifierOptions options;
  options.tower.block = {8, 16, 2, Activation::kGelu, 1e-5, 0, fused};
  options.tower.num_hidden_layers = 2;
  options.tower.patch_size = 4;
  options.tower.image_size = 8;
  options.tower.patch_bias = !is_clip;
  options.tower.norm_before_blocks = is_clip;
  options.num_classes = 3;
  if (is_clip) options.projection_dim = 6, options.feature = Feature::kProjected;
  return options;
}

ImageClassifier random_network(const ImageClassifierOptions& options, std::uint64_t seed) {
  ImageClassifier network(options);
  const torch::NoGradGuard no_graph;
  auto generator = at::detail::createCPUGenerator(seed);
  for (at::Tensor parameter : network.parameters()) parameter.normal_(0, 1, generator);
  return network;
}

/// Returns the weights of `network` without its head, under the names of a layout that stores
/// projections like the network.
NamedTensors in_layout(const ImageClassifier& network, WeightLayout layout) {
  NamedTensors result;
  for (const auto& item : network.named_parameters()) {
    const auto theirs = library_name(layout, item.key());
    if (theirs && !item.key().starts_with("head."))
      result.set(*theirs, item.value().detach().clone());
  }
  return result;
}

at::Tensor features(const ImageClassifier& network) {
  const torch::NoGradGuard no_graph;
  return network.features(torch::linspace(-1, 1, 2 * 3 * 8 * 8).reshape({2, 3, 8, 8}));
}

TEST(Pretrained, ProjectionsAreFusedAndSplit) {
  const ImageClassifier separate = random_network(small(false, false), 1);
  ImageClassifier fused = random_network(small(false, true), 2);
  const PretrainedReport joined =
      load_pretrained(fused, in_layout(separate, WeightLayout::kVit), PositionResize::kBicubic);
  ASSERT_TRUE(joined.fits()) << joined.misfits();
  EXPECT_TRUE(torch::allclose(features(fused), features(separate), 1e-5, 1e-6));

  ImageClassifier back = random_network(small(false, false), 3);
  const PretrainedReport cut =
      load_pretrained(back, in_layout(fused, WeightLayout::kTimm), PositionResize::kBicubic);
  ASSERT_TRUE(cut.fits()) << cut.misfits();
  EXPECT_TRUE(torch::equal(features(back), features(separate)));
}

TEST(Pretrained, OpenAiProjectionIsTransposed) {
  const ImageClassifier from = random_network(small(true, true), 1);
  NamedTensors saved = in_layout(from, WeightLayout::kOpenClip);
  saved.set("visual.proj", saved.at("visual.proj").t().contiguous());
  saved.set("logit_scale", torch::ones({}));
  saved.set("transformer.resblocks.0.ln_1.weight", torch::ones({4}));
  ImageClassifier to = random_network(small(true, true), 2);
  const PretrainedReport report = load_pretrained(to, saved, PositionResize::kBicubic);
  ASSERT_TRUE(report.fits()) << report.misfits();
  EXPECT_TRUE(torch::equal(features(to), features(from)));
  EXPECT_EQ(report.text(),
            "32 weights of OpenAI's CLIP; left out: logit_scale, "
            "transformer.resblocks.0.ln_1.weight; random: head.weight, head.bias");
}

TEST(Pretrained, AllMismatchesAreReportedAndNothingIsLoaded) {
  const ImageClassifier from = random_network(small(true, false), 1);
  NamedTensors saved;
  for (const auto& [name, tensor] : in_layout(from, WeightLayout::kClip)) {
    if (name != "vision_model.post_layernorm.bias") saved.set(name, tensor);
  }
  saved.set("vision_model.encoder.layers.2.mlp.fc1.bias", torch::ones({16}));
  saved.set("vision_model.pre_layrnorm.weight", torch::ones({9}));
  ImageClassifier to = random_network(small(true, false), 2);
  const at::Tensor before = features(to);
  const PretrainedReport report = load_pretrained(to, saved, PositionResize::kBicubic);
  EXPECT_FALSE(report.fits());
  EXPECT_EQ(report.misfits(),
            "1 missing (vision_model.post_layernorm.bias), 1 unexpected "
            "(vision_model.encoder.layers.2.mlp.fc1.bias), 1 with a different shape "
            "(vision_model.pre_layrnorm.weight [9] for [8])");
  EXPECT_TRUE(torch::equal(features(to), before));
}

TEST(Pretrained, UnknownNamesAreRejected) {
  ImageClassifier to = random_network(small(true, false), 2);
  EXPECT_REFUSED(
      load_pretrained(to, {{"layer1.0.conv1.weight", torch::ones({2})}}, PositionResize::kBicubic),
      kDamagedWeights, "", "layer1.0.conv1.weight");
}

TEST(Pretrained, TimmProjectionBiasIsNotDroppedSilently) {
  const ImageClassifier from = random_network(small(true, true), 1);
  NamedTensors saved = in_layout(from, WeightLayout::kTimmClip);
  saved.set("head.bias", torch::zeros({6}));
  ImageClassifier to = random_network(small(true, true), 2);
  EXPECT_TRUE(load_pretrained(to, saved, PositionResize::kBicubic).fits());
  saved.set("head.bias", torch::ones({6}));
  EXPECT_THAT(load_pretrained(to, saved, PositionResize::kBicubic).misfits(),
              HasSubstr("head.bias, which is not zero"));
}

TEST(Pretrained, PositionsOfAnotherImageSizeAreResized) {
  const ImageClassifier from = random_network(small(true, false), 1);
  ImageClassifierOptions larger = small(true, false);
  larger.tower.image_size = 12;
  ImageClassifier to = random_network(larger, 2);
  const PretrainedReport report =
      load_pretrained(to, in_layout(from, WeightLayout::kClip), PositionResize::kBicubicAntialias);
  ASSERT_TRUE(report.fits());
  EXPECT_THAT(report.text(), HasSubstr("position embeddings resized from 2 x 2 to 3 x 3"));
  const auto name = "vision_model.embeddings.position_embedding.weight";
  const at::Tensor before = weights(from).at(name), after = weights(to).at(name);
  EXPECT_TRUE(torch::equal(after[0], before[0]));
  EXPECT_TRUE(
      torch::allclose(after[5], before.slice(0, 1).mean(0), 1e-4, 1e-5));  // the middle of nine
}

ImageClassifierOptions small_dinov2(bool fused, std::int64_t registers) {
  ImageClassifierOptions options = small(false, fused);
  options.tower.block.layer_scale = true;
  options.tower.register_tokens = registers;
  return options;
}

TEST(Pretrained, ExportedDinov2RoundTrips) {
  for (const std::int64_t registers : {0, 3}) {
    for (const WeightLayout layout : {WeightLayout::kDinov2, WeightLayout::kTimm}) {
      const bool is_of_timm = layout == WeightLayout::kTimm;
      const ImageClassifier from = random_network(small_dinov2(is_of_timm, registers), 1);
      const NamedTensors saved = exported(from, layout).tensors;
      EXPECT_EQ(layout_of(saved), layout);
      EXPECT_EQ(sizes_of_weights(saved).register_tokens,
                registers > 0 ? std::optional(registers) : std::nullopt);
      ImageClassifier to = random_network(small_dinov2(!is_of_timm, registers), 2);
      const PretrainedReport report = load_pretrained(to, saved, PositionResize::kBicubic);
      ASSERT_TRUE(report.fits()) << report.misfits();
      EXPECT_EQ(report.text().find("resized"), std::string::npos) << report.text();
      EXPECT_TRUE(torch::allclose(features(to), features(from), 1e-4, 1e-5)) << registers;
    }
  }
}

TEST(Pretrained, TimmDinov2WithRegistersHasNoClassTokenPosition) {
  const ImageClassifier from = random_network(small_dinov2(true, 3), 1);
  const NamedTensors saved = exported(from, WeightLayout::kTimm).tensors;
  EXPECT_EQ(saved.at("pos_embed").sizes(), at::IntArrayRef({1, 4, 8}));
  EXPECT_EQ(saved.at("reg_token").sizes(), at::IntArrayRef({1, 3, 8}));
  ImageClassifierOptions larger = small_dinov2(true, 3);
  larger.tower.image_size = 12;
  ImageClassifier to = random_network(larger, 2);
  const PretrainedReport report = load_pretrained(to, saved, PositionResize::kBicubicAntialias);
  ASSERT_TRUE(report.fits()) << report.misfits();
  EXPECT_THAT(report.text(), HasSubstr("position embeddings resized from 2 x 2 to 3 x 3"));
  const at::Tensor positions = weights(to).at("vision_model.embeddings.position_embedding.weight");
  EXPECT_TRUE(positions[0].eq(0).all().item<bool>());
  EXPECT_TRUE(torch::allclose(positions[5], saved.at("pos_embed")[0].mean(0), 1e-4, 1e-5));
}

TEST(Pretrained, UnexpectedAndMissingLayerScalesAreReported) {
  const NamedTensors saved =
      exported(random_network(small_dinov2(false, 0), 1), WeightLayout::kDinov2).tensors;
  ImageClassifier vit = random_network(small(false, false), 2);
  EXPECT_THAT(load_pretrained(vit, saved, PositionResize::kBicubic).misfits(),
              HasSubstr("encoder.layer.0.layer_scale1.lambda1"));
  ImageClassifier to = random_network(small_dinov2(false, 0), 2);
  const NamedTensors plain = in_layout(random_network(small(false, false), 1), WeightLayout::kVit);
  EXPECT_THAT(load_pretrained(to, plain, PositionResize::kBicubic).misfits(),
              HasSubstr("4 missing (vision_model.encoder.layers.0.layer_scale1.lambda1"));
}

/// A list of names and shapes in another library, and the parameter count of that model's tower.
struct Listed {
  const char* file;
  std::int64_t hidden, inner, layers, heads, patch;
  bool is_clip;
  std::int64_t projection, tower_parameters;
};

void PrintTo(const Listed& listed, std::ostream* out) { *out << listed.file; }

class ListedNames : public testing::TestWithParam<Listed> {};
INSTANTIATE_TEST_SUITE_P(
    OfLibraries, ListedNames,
    testing::Values(
        Listed{"hf_clip__b32", 768, 3072, 12, 12, 32, true, 512, 87456000},
        Listed{"hf_clip__b16", 768, 3072, 12, 12, 16, true, 512, 85799424},
        Listed{"hf_clip__l14", 1024, 4096, 24, 16, 14, true, 768, 303179776},
        Listed{"open_clip__ViT-B-32-quickgelu", 768, 3072, 12, 12, 32, true, 512, 87456000},
        Listed{"open_clip__ViT-B-16-quickgelu", 768, 3072, 12, 12, 16, true, 512, 85799424},
        Listed{"open_clip__ViT-L-14-quickgelu", 1024, 4096, 24, 16, 14, true, 768, 303179776},
        Listed{"hf_vit__base", 768, 3072, 12, 12, 16, false, 0, 86567656 - 769000},
        Listed{"timm__vit_base_patch16_224", 768, 3072, 12, 12, 16, false, 0, 86567656 - 769000},
        Listed{"timm__vit_base_patch16_clip_224", 768, 3072, 12, 12, 16, true, 1000, 85799424},
        Listed{"timm__vit_base_patch16_clip_quickgelu_224", 768, 3072, 12, 12, 16, true, 512,
               85799424},
        Listed{"timm__vit_base_patch32_clip_quickgelu_224", 768, 3072, 12, 12, 32, true, 512,
               87456000},
        Listed{"timm__vit_large_patch14_clip_quickgelu_224", 1024, 4096, 24, 16, 14, true, 768,
               303179776}),
    [](const auto& info) {
      std::string name = info.param.file;
      std::ranges::replace(name, '-', '_');
      return name;
    });

TEST_P(ListedNames, AllMatch) {
  const auto keys =
      shared_data(std::string("cases/parity/fullsize/keys/") + GetParam().file + ".txt");
  RETORT_NEEDS_SHARED(keys);
  std::vector<NamedTensors::Item> listed;
  std::ifstream file(keys);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, sizes;
    words >> name >> sizes;
    std::vector<std::int64_t> shape;
    std::istringstream numbers(sizes == "-" ? "" : sizes);
    for (std::string size; std::getline(numbers, size, ',');) shape.push_back(std::stoll(size));
    listed.emplace_back(name, torch::empty(shape, torch::kMeta));
  }
  NamedTensors saved(std::move(listed));
  if (saved.contains("head.bias") && GetParam().is_clip) saved.set("head.bias", torch::zeros({1}));
  for (const bool fused : {false, true}) {
    ImageClassifierOptions options;
    options.tower = {
        {GetParam().hidden, GetParam().inner, GetParam().heads, Activation::kGelu, 1e-5, 0, fused},
        GetParam().layers,
        GetParam().patch,
        224,
        0,
        !GetParam().is_clip,
        GetParam().is_clip};
    if (GetParam().is_clip)
      options.projection_dim = GetParam().projection, options.feature = Feature::kProjected;
    options.num_classes = 2;
    ImageClassifier network(options, torch::kMeta);
    const PretrainedReport report = load_pretrained(network, saved, PositionResize::kBicubic);
    EXPECT_TRUE(report.fits()) << report.misfits();
    EXPECT_EQ(report.taken, static_cast<std::int64_t>(network.parameters().size()) - 2);
    std::int64_t count = 0;
    for (const at::Tensor& parameter : network.tower().parameters()) count += parameter.numel();
    EXPECT_EQ(count, GetParam().tower_parameters);
  }
}

TEST(Pretrained, CommonPrefixIsRemoved) {
  const ImageClassifier source = random_network(small(false, false), 1);
  for (const WeightLayout layout : {WeightLayout::kVit, WeightLayout::kVitInner}) {
    const NamedTensors saved = in_layout(source, layout);
    for (const std::string wrapper :
         {"model.", "encoder.", "student.", "module.encoder.", "net.backbone."}) {
      NamedTensors wrapped;
      for (const auto& [name, tensor] : saved) wrapped.set(wrapper + name, tensor);
      wrapped.set(wrapper.substr(0, wrapper.find('.') + 1) + "head.weight", torch::ones({3, 8}));
      ImageClassifier network = random_network(small(false, false), 2);
      const PretrainedReport report = load_pretrained(network, wrapped, PositionResize::kBicubic);
      ASSERT_TRUE(report.fits()) << wrapper << report.misfits();
      EXPECT_THAT(report.text(), HasSubstr(", all under '" + wrapper + "'"));
      EXPECT_TRUE(features(network).equal(features(source)));
    }
  }
}

TEST(Pretrained, TwoModelsInOneFileAreRejectedByName) {
  NamedTensors both;
  const ImageClassifier source = random_network(small(false, false), 1);
  for (const auto& [name, tensor] : in_layout(source, WeightLayout::kVitInner)) {
    both.set("student." + name, tensor);
    both.set("teacher." + name, tensor);
  }
  ImageClassifier network = random_network(small(false, false), 2);
  EXPECT_REFUSED(load_pretrained(network, both, PositionResize::kBicubic), kOptionConflict, "",
                 "'student.', 'teacher.'", "weights_entry=student");
}

TEST(Pretrained, IntegersWithoutAScaleAreRejected) {
  ImageClassifier network = random_network(small(false, false), 2);
  NamedTensors saved = in_layout(network, WeightLayout::kVitInner);
  saved.set("layernorm.weight", saved.at("layernorm.weight").to(torch::kChar));
  EXPECT_REFUSED(load_pretrained(network, saved, PositionResize::kBicubic), kDamagedWeights, "",
                 "'layernorm.weight'", "Char");
}

/// The published car training saves its CLIP below "clip.", inside "module." if it ran on several
/// GPUs, and its class head as "make_classifier".
TEST(Pretrained, CheckpointOfThePublishedTrainingIsLoaded) {
  ClipOptions shape{.projection_dim = 6, .class_count = 3};
  shape.image = small(true, false).tower;
  shape.text.block = {8, 16, 2, Activation::kGelu, 1e-5};
  shape.text.num_hidden_layers = 1;
  shape.text.vocab_size = 10;
  shape.text.context_length = 5;
  const auto random = [](ClipNetwork& network, std::uint64_t seed) {
    const torch::NoGradGuard no_graph;
    auto generator = at::detail::createCPUGenerator(seed);
    for (at::Tensor parameter : network.parameters()) parameter.normal_(0, 1, generator);
  };
  for (const std::string wrapper : {"", "module."}) {
    ClipNetwork saved(shape), loaded(shape);
    random(saved, 1);
    random(loaded, 2);
    NamedTensors tensors;
    for (const auto& item : saved.named_parameters()) {
      const bool is_head = item.key().starts_with("class_head.");
      tensors.set(
          wrapper + (is_head ? "make_classifier." + item.key().substr(11) : "clip." + item.key()),
          item.value().detach());
    }
    tensors.set(wrapper + "clip.text_model.embeddings.position_ids", torch::arange(5));
    const PretrainedReport report = load_pretrained(loaded, tensors, PositionResize::kBicubic);
    ASSERT_TRUE(report.fits()) << report.misfits();
    EXPECT_THAT(report.text(),
                HasSubstr("weights of transformers' CLIP, all under '" + wrapper + "clip.'"));
    for (const auto& item : saved.named_parameters())
      EXPECT_TRUE(item.value().equal(loaded.named_parameters()[item.key()])) << item.key();

    shape.class_count = 4;
    ClipNetwork other(shape);
    random(other, 3);
    const PretrainedReport without = load_pretrained(other, tensors, PositionResize::kBicubic);
    EXPECT_TRUE(without.fits());
    EXPECT_THAT(without.random, testing::ElementsAre("class_head.weight", "class_head.bias"));
    EXPECT_THAT(without.left_out, testing::Contains("make_classifier.weight"));
    shape.class_count = 3;
  }
}

}  // namespace
}  // namespace stages
