#include "runner/parent/run/mlflow_target.h"

#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class MlflowTargetTest : public testing::Test {
 protected:
  void install() const {
    const std::filesystem::path tracker = folder_ / "retort-tracker";
    std::ofstream(tracker) << "#!/bin/sh\n";
    std::filesystem::permissions(tracker, std::filesystem::perms::owner_all);
  }
  Result<MlflowTarget> target() const {
    return mlflow_target(
        [this](const std::string& name) {
          const auto found = variables_.find(name);
          return found == variables_.end() ? std::nullopt : std::optional(found->second);
        },
        folder_ / "retort");
  }
  TemporaryFolder folder_;
  std::map<std::string, std::string> variables_;
};

std::string refusal(const std::string& address) {
  const Diagnostics errors = refused_mlflow_address(address, "MLFLOW_TRACKING_URI");
  return errors.empty() ? "" : errors.front().message + " -> " + errors.front().help;
}

TEST_F(MlflowTargetTest, ComesFromMlflowsVariables) {
  install();
  variables_ = {{"MLFLOW_TRACKING_URI", "http://host:5000/"}, {"MLFLOW_EXPERIMENT_ID", "7"}};
  auto found = target();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->server, "http://host:5000");
  EXPECT_EQ(found->experiment_id, "7");
  EXPECT_EQ(found->tracker, folder_ / "retort-tracker");
  variables_["MLFLOW_EXPERIMENT_NAME"] = "flowers";
  found = target();
  EXPECT_EQ(found->experiment_name, "flowers");
  EXPECT_EQ(found->experiment_id, "") << "the name takes precedence, as in MLflow";
}

TEST_F(MlflowTargetTest, MissingAddressAndMissingProgramAreRejected) {
  EXPECT_EQ(target().errors().at(0).message,
            "run.mlflow is true, but MLFLOW_TRACKING_URI is not set");
  EXPECT_THAT(target().errors().at(0).help, HasSubstr("http://127.0.0.1:5000"));
  variables_["MLFLOW_TRACKING_URI"] = "https://host";
  EXPECT_EQ(target().errors().at(0).code, ErrorCode::kWorkerMissing);
}

TEST(MlflowAddress, AcceptsServerUrls) {
  for (const char* good : {"http://127.0.0.1:5000", "https://host/mlflow", "http://[::1]:5000"})
    EXPECT_EQ(refusal(good), "");
}

TEST(MlflowAddress, UnsupportedStoresAreRejectedByName) {
  EXPECT_THAT(refusal("databricks://profile"), HasSubstr("does not sign in to Databricks"));
  for (const char* store : {"sqlite:///mlflow.db", "file:///tmp/mlruns", "mlruns",
                            "postgresql://host/db", "databrick"}) {
    EXPECT_THAT(refusal(store),
                HasSubstr("'" + std::string(store) + "': Retort sends runs to a server"));
    EXPECT_THAT(refusal(store), HasSubstr("mlflow server --backend-store-uri"));
  }
  EXPECT_THAT(refusal("http://"), HasSubstr("not the address of a server"));
  EXPECT_THAT(refusal("http://host/?a=b"), HasSubstr("not the address of a server"));
}

TEST(MlflowAddress, CredentialsAreRejectedAndNotShown) {
  EXPECT_THAT(refusal("https://anna:word@host"), HasSubstr("MLFLOW_TRACKING_PASSWORD"));
  EXPECT_THAT(refusal("https://anna:word@host"), Not(HasSubstr("word@")));
}

}  // namespace
}  // namespace runner
