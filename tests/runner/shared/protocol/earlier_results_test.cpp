#include "runner/shared/protocol/earlier_results.h"

#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

std::string refusal(const char* text) {
  try {
    checkpoint_sources_from_json(Json::parse(text));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CheckpointSource, SurvivesJson) {
  for (const char* choice : {"kept", "best", "latest", "this"}) {
    const Json json = {{"train.0-1", {{"folder", "/a"}, {"choice", choice}}}};
    EXPECT_EQ(to_json(checkpoint_sources_from_json(json)).dump(), json.dump());
  }
  for (const char* weights : {"averaged", "trained"}) {
    const Json json = {{"train", {{"folder", "/a"}, {"choice", "best"}, {"weights", weights}}}};
    EXPECT_EQ(to_json(checkpoint_sources_from_json(json)).dump(), json.dump());
  }
  EXPECT_EQ(to_json(CheckpointSources{}).dump(), "{}");
}

TEST(CheckpointSource, MalformedSourcesAreRejected) {
  EXPECT_EQ(refusal("[]"), "the checkpoints are not an object");
  EXPECT_EQ(refusal(R"({"a": 1})"), "a checkpoint is not a JSON object");
  EXPECT_EQ(refusal(R"({"a": {"choice": "best"}})"), "a checkpoint has no 'folder'");
  EXPECT_EQ(refusal(R"({"a": {"choice": "worst", "folder": "/a"}})"),
            "a checkpoint has an unknown 'choice'");
  EXPECT_EQ(refusal(R"({"a": {"choice": "best", "folder": "/a", "weights": "both"}})"),
            "a checkpoint has unknown 'weights'");
  EXPECT_EQ(refusal(R"({"a": {"choice": "best", "folder": "/a", "weight": 1}})"),
            "a checkpoint has an unknown 'weight'");
}

}  // namespace
}  // namespace runner
