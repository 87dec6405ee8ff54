#include "runner/shared/weights/weights_file.h"

#include <gtest/gtest.h>

#include "runner/shared/error/stage_error.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

class WeightsFile : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ / name; }
  const TemporaryFolder folder_;
};

TEST_F(WeightsFile, ConfigIsReadWithItsPath) {
  folder_.write("model.safetensors", "");
  EXPECT_FALSE(config_next_to(find_weights(at(""))));
  folder_.write("config.json", R"({"hidden_size": 8})");
  const auto config = config_next_to(find_weights(at("")));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->file, at("config.json"));
  EXPECT_EQ(config->text, R"({"hidden_size": 8})");
  EXPECT_EQ(config->json["hidden_size"], 8);
}

TEST_F(WeightsFile, AdaptersAndOpenClipHaveTheirOwnConfigs) {
  folder_.write("adapter_config.json", R"({"r": 8})");
  EXPECT_EQ(config_next_to(at("adapter_model.bin"))->json["r"], 8);
  folder_.write("open_clip_config.json", R"({"model_cfg": {}})");
  EXPECT_TRUE(config_next_to(at("open_clip_model.safetensors"))->json.contains("model_cfg"));
}

TEST_F(WeightsFile, InvalidConfigIsRejected) {
  folder_.write("config.json", "[]");
  try {
    config_next_to(at("model.safetensors"));
    FAIL() << "it was taken";
  } catch (const StageError& error) {
    EXPECT_EQ(std::string(error.what()),
              "'" + at("config.json") +
                  "' is not a valid description of a model: it is not a JSON object");
  }
}

TEST_F(WeightsFile, MissingFileIsReported) { EXPECT_THROW(find_weights(at("none")), StageError); }

}  // namespace
}  // namespace runner
