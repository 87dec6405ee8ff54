#include "stages/model/published_base.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "stages/model/fine_tuned.h"
#include "stages/weights/safetensors.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

class PublishedBaseTest : public testing::Test {
 protected:
  void save(const std::string& file, const nlohmann::json& config) {
    write_safetensors(folder_ / file, {{"a", torch::zeros({1})}});
    if (!config.is_null()) std::ofstream(folder_ / "config.json") << config.dump();
  }
  std::optional<PublishedBase> base(const std::optional<std::string>& reference,
                                    WeightLayout layout = WeightLayout::kClipInner) const {
    ImageClassifierOptions options;
    options.tower.block = {8, 16, 2, Activation::kGelu, 1e-5};
    options.tower.patch_size = 4;
    options.tower.image_size = 8;
    options.num_classes = 3;
    FineTunedClassifier network(options, at::TensorOptions(at::kMeta));
    network.weights_reference = reference;
    return published_base(network, layout);
  }
  std::string path() const { return fs::canonical(folder_.path()).string(); }
  const nlohmann::json clip_ = {{"model_type", "clip_vision_model"}, {"image_size", 8}};
  TemporaryFolder folder_;
};

TEST_F(PublishedBaseTest, IsTheFolderSavedByTheLibrary) {
  save("model.safetensors", clip_);
  ASSERT_TRUE(base(path()));
  EXPECT_EQ(base(path())->name_or_path, path());
  EXPECT_EQ(base(path() + "/model.safetensors")->name_or_path, path());
}

TEST_F(PublishedBaseTest, RandomWeightsHaveNoPublishedBase) { EXPECT_FALSE(base(std::nullopt)); }

TEST_F(PublishedBaseTest, FileWithoutAConfigIsNotABase) {
  save("model.safetensors", nullptr);
  EXPECT_FALSE(base(path()));
}

TEST_F(PublishedBaseTest, FileWithAnUnusualNameIsNotABase) {
  save("other.safetensors", clip_);
  EXPECT_FALSE(base(path() + "/other.safetensors"));
}

TEST_F(PublishedBaseTest, FolderForAnotherLibraryOrFamilyIsNotABase) {
  save("model.safetensors", clip_);
  EXPECT_FALSE(base(path(), WeightLayout::kVit5Inner));
  EXPECT_FALSE(base(path(), WeightLayout::kTimmClip));
}

TEST_F(PublishedBaseTest, ConfigForAnotherImageSizeIsNotABase) {
  save("model.safetensors", {{"model_type", "clip_vision_model"}, {"image_size", 16}});
  EXPECT_FALSE(base(path()));
  save("model.safetensors",
       {{"model_type", "clip_vision_model"}});  // 224, the default, which is omitted
  EXPECT_FALSE(base(path()));
}

}  // namespace
}  // namespace stages
