#include "runner/parent/run/mlflow_request.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;

const MlflowTarget kTarget{.server = "http://host:5000", .experiment_name = "flowers"};

MlflowSubject subject(const std::filesystem::path& folder) {
  return {.folder = folder,
          .recipe = Json::parse(R"({"name": "classify", "seed": 3, "aliases": {"lr": "x"},
              "train": {"kind": "train.supervised", "epochs": 5, "steps": null, "sizes": [1, 2]}})"),
          .nodes = {{"train", "train.supervised"},
                    {"evaluate", "evaluate.classification"},
                    {"outside", "evaluate.classification"}},
          .began = 1700000000.25};
}

TEST(MlflowRequest, OptionsBecomeParametersByTheirKeys) {
  const Json request = mlflow_request(kTarget, subject("/runs/one"));
  EXPECT_EQ(request["run"]["params"],
            Json::parse(R"({"name": "classify", "seed": "3", "train.kind": "train.supervised",
                "train.epochs": "5", "train.steps": "null", "train.sizes": "[1,2]"})"));
  EXPECT_EQ(request["server"], "http://host:5000");
  EXPECT_EQ(request["experiment"]["name"], "flowers");
  EXPECT_EQ(request["run"]["began"], 1700000000250);
  EXPECT_EQ(request["run"]["state"], "/runs/one/.retort/mlflow.json");
  EXPECT_EQ(request["run"]["tags"]["mlflow.source.type"], "LOCAL");
  EXPECT_EQ(request["limit_seconds"], 5);
}

TEST(MlflowRequest, NodeIsNamedIfItsFamilyHasSeveral) {
  EXPECT_EQ(mlflow_request(kTarget, subject("/runs/one"))["run"]["prefixes"],
            Json::parse(R"({"evaluate": "evaluate/", "outside": "outside/"})"));
}

TEST(MlflowRequest, TitleHasTheEndOfTheFolder) {
  EXPECT_EQ(mlflow_request(kTarget, subject("/runs/one"))["run"]["name"], "classify one");
  EXPECT_EQ(mlflow_request(kTarget, subject("/o/2026-01-31/12-00-00"))["run"]["name"],
            "classify 2026-01-31/12-00-00");
}

TEST(MlflowRequest, TrialBelongsToItsSweep) {
  const TemporaryFolder folder;
  EXPECT_TRUE(mlflow_request(kTarget, subject(folder / "0"))["sweep"].is_null());
  std::ofstream(folder / "sweep.jsonl") << "{}\n";
  const Json sweep = mlflow_request(kTarget, subject(folder / "0"))["sweep"];
  EXPECT_EQ(sweep["state"], (folder / "mlflow.json").string());
  EXPECT_EQ(sweep["metrics"], "");
  EXPECT_EQ(mlflow_sweep_request(kTarget, folder.path(), "classify", 1700000000.25)["run"], sweep);
}

}  // namespace
}  // namespace runner
