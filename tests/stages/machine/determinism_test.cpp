#include "stages/machine/determinism.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

namespace stages {
namespace {

using runner::Determinism;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// An operation that is never deterministic: which of two values is written to index 0?
void do_put() { torch::zeros(3).put_(torch::tensor({0, 0}), torch::tensor({1.0F, 2.0F})); }

class Listener : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { heard.push_back(warning.msg()); }
  std::vector<std::string> heard;
};

class DeterminismTest : public testing::Test {
 protected:
  std::vector<std::string> reported_;
  std::function<void(const std::string&)> tell_ = [this](const std::string& operation) {
    reported_.push_back(operation);
  };
  Listener listener_;
  c10::WarningUtils::WarningHandlerGuard guard_{&listener_};
};

TEST_F(DeterminismTest, StrictRejectsTheOperation) {
  const ScopedDeterminism strict(Determinism::kStrict, tell_);
  try {
    do_put();
    ADD_FAILURE() << "it was done";
  } catch (const std::exception& error) {
    EXPECT_EQ(runner::nondeterministic_operation(error.what()), "put_");
  }
  EXPECT_THAT(reported_, IsEmpty());
}

TEST_F(DeterminismTest, WarnReportsEachOperationOnceAndKeepsOtherWarnings) {
  const ScopedDeterminism warn(Determinism::kWarn, tell_);
  do_put();
  do_put();
  at::globalContext().alertNotDeterministic("another");
  TORCH_WARN("it is raining");
  EXPECT_THAT(reported_, ElementsAre("put_", "another"));
  EXPECT_THAT(listener_.heard, ElementsAre(HasSubstr("it is raining")));
}

TEST_F(DeterminismTest, OffReportsNothing) {
  const ScopedDeterminism off(Determinism::kOff, tell_);
  do_put();
  EXPECT_FALSE(at::globalContext().deterministicCuDNN());
  EXPECT_THAT(reported_, IsEmpty());
  EXPECT_THAT(listener_.heard, IsEmpty());
}

TEST_F(DeterminismTest, SettingsLastAsLongAsTheScope) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(true);
  for (const Determinism determinism : {Determinism::kStrict, Determinism::kWarn}) {
    const ScopedDeterminism scope(determinism, tell_);
    EXPECT_TRUE(context.deterministicAlgorithms());
    EXPECT_EQ(context.deterministicAlgorithmsWarnOnly(), determinism == Determinism::kWarn);
    EXPECT_TRUE(context.deterministicCuDNN());
    EXPECT_TRUE(context.deterministicMkldnn());
    EXPECT_FALSE(context.benchmarkCuDNN());
    EXPECT_TRUE(context.deterministicFillUninitializedMemory());
  }
  EXPECT_FALSE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
  EXPECT_FALSE(context.deterministicCuDNN());
  EXPECT_FALSE(context.deterministicMkldnn());
  EXPECT_TRUE(context.benchmarkCuDNN());
  context.setBenchmarkCuDNN(false);
  do_put();
  EXPECT_EQ(c10::WarningUtils::get_warning_handler(), &listener_);
}

/// Sets CUBLAS_WORKSPACE_CONFIG for a test, and restores it afterward.
class CublasTest : public testing::Test {
 protected:
  CublasTest() {
    if (const char* value = std::getenv(kName)) before_ = value;
    unsetenv(kName);
  }
  ~CublasTest() override {
    if (before_) setenv(kName, before_->c_str(), 1);
    else unsetenv(kName);
  }
  static std::string value() { return std::getenv(kName) ? std::getenv(kName) : "not set"; }

  static constexpr const char* kName = "CUBLAS_WORKSPACE_CONFIG";
  std::optional<std::string> before_;
};

TEST_F(CublasTest, IsSetUnlessTheUserHasSetIt) {
  EXPECT_EQ(use_cublas_workspace(Determinism::kOff).set, std::nullopt);
  EXPECT_EQ(value(), "not set");
  EXPECT_EQ(use_cublas_workspace(Determinism::kStrict).set, ":4096:8");
  EXPECT_EQ(value(), ":4096:8");
  unsetenv(kName);
  EXPECT_EQ(use_cublas_workspace(Determinism::kWarn).set, ":4096:8");
}

TEST_F(CublasTest, DeterministicUserValueIsKept) {
  for (const char* good : {":4096:8", ":16:8"}) {
    setenv(kName, good, 1);
    const CublasWorkspace used = use_cublas_workspace(Determinism::kStrict);
    EXPECT_EQ(used.set, std::nullopt);
    EXPECT_FALSE(used.complaint);
    EXPECT_EQ(value(), good);
  }
}

TEST_F(CublasTest, NondeterministicUserValueIsAnErrorOrAWarning) {
  setenv(kName, ":0:0", 1);
  const auto strict = use_cublas_workspace(Determinism::kStrict).complaint;
  ASSERT_TRUE(strict);
  EXPECT_EQ(strict->severity, runner::Severity::kError);
  EXPECT_EQ(strict->message, "with CUBLAS_WORKSPACE_CONFIG=':0:0' cuBLAS is not deterministic");
  EXPECT_EQ(strict->help, "unset it, or set it to :4096:8 or :16:8; or write determinism: warn");
  EXPECT_EQ(strict->pointer, "/determinism");
  const auto warn = use_cublas_workspace(Determinism::kWarn).complaint;
  ASSERT_TRUE(warn);
  EXPECT_EQ(warn->severity, runner::Severity::kWarning);
  EXPECT_EQ(warn->help, "unset it, or set it to :4096:8 or :16:8");
  EXPECT_FALSE(use_cublas_workspace(Determinism::kOff).complaint);
  EXPECT_EQ(value(), ":0:0");
}

}  // namespace
}  // namespace stages
