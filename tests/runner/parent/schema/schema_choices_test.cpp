#include "runner/parent/schema/schema_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/schema_texts.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kFit =
    R"({"schema": 1, "train": {"kind": "train.fit", "optimizer": {"kind": "sgd"}}})";

KeyChoices choices(const std::string& json, std::vector<std::string> path) {
  return small_schemas().choices(written(json), path);
}

/// Returns "value" or "value: description" for each choice.
std::vector<std::string> listed(const KeyChoices& choices) {
  std::vector<std::string> lines;
  for (const auto& [value, description] : choices.choices)
    lines.push_back(describe(value) + (description.empty() ? "" : ": " + description));
  return lines;
}

TEST(SchemaChoices, EnumValuesConstantsAndBooleansAreListed) {
  EXPECT_THAT(listed(choices(kFit, {"train", "micro_batch"})), ElementsAre("\"auto\""));
  EXPECT_THAT(listed(choices(kFit, {"train", "optimizer", "nesterov"})),
              ElementsAre("true", "false"));
  EXPECT_THAT(listed(choices(kFit, {"device", "wait_for_gpu"})), ElementsAre("true", "false"));
}

TEST(SchemaChoices, AlternativesOfAllPartsAreListed) {
  EXPECT_THAT(listed(choices(kFit, {"device", "select"})),
              ElementsAre("\"cpu\"", "\"cuda\"", "\"cuda:0\"", "\"auto\""));
}

TEST(SchemaChoices, ItemsOfAListAreListed) {
  EXPECT_THAT(listed(choices(kFit, {"device", "fallback", "0"})),
              ElementsAre("\"gpu\"", "\"cpu\""));
  EXPECT_THAT(listed(choices(kFit, {"device", "fallback"})), IsEmpty());
}

TEST(SchemaChoices, KindsAllowedAtTheLocationAreListed) {
  EXPECT_THAT(listed(choices(kFit, {"train", "optimizer", "kind"})),
              ElementsAre("\"adam\": Adam.", "\"sgd\": SGD."));
  EXPECT_THAT(listed(choices(R"({"schema": 1, "train": {}})", {"train", "kind"})),
              ElementsAre("\"data.folder\": Reads a folder.", "\"train.fit\": Fits a model."));
}

TEST(SchemaChoices, NumbersCannotBeListed) {
  const KeyChoices epochs = choices(kFit, {"train", "epochs"});
  EXPECT_THAT(listed(epochs), IsEmpty());
  EXPECT_TRUE(epochs.takes_scalar);
  EXPECT_EQ(epochs.description, "Passes.");
}

TEST(SchemaChoices, MappingsDoNotAcceptScalars) {
  EXPECT_FALSE(choices(kFit, {"train", "optimizer"}).takes_scalar);
  EXPECT_EQ(choices(kFit, {"train", "optimizer"}).description, "How.");
}

TEST(SchemaChoices, PathsAreRecognized) {
  EXPECT_TRUE(
      choices(R"({"schema": 1, "data": {"kind": "data.folder"}})", {"data", "root"}).is_path);
  EXPECT_FALSE(choices(kFit, {"train", "epochs"}).is_path);
}

TEST(SchemaChoices, UnknownKeysHaveNoChoices) {
  EXPECT_THAT(listed(choices(kFit, {"train", "nosuch"})), IsEmpty());
  EXPECT_THAT(listed(choices(kFit, {"train", "epochs", "deeper"})), IsEmpty());
  EXPECT_EQ(choices(kFit, {"train", "nosuch"}).description, "");
}

}  // namespace
}  // namespace runner
