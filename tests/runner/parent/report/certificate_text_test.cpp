#include "runner/parent/report/plan_text.h"

#include <cmath>

#include <gtest/gtest.h>

namespace runner {
namespace {

Certificate certificate() {
  return {.node = "train",
          .compared = "micro_batch 3 against the whole batch of 8",
          .parameters = {{"conv.weight", 3.14e-16}, {"head.bias", 0}}};
}

TEST(CertificateText, ValidCertificatePasses) {
  EXPECT_EQ(certificate_text(certificate()),
            "train, in float64: micro_batch 3 against the whole batch of 8\n"
            "  error  gradient of\n"
            "3.1e-16  conv.weight\n"
            "      0  head.bias\n"
            "PASS  train: the largest relative error of 2 gradients is 3.1e-16, below 1.0e-12\n");
}

TEST(CertificateText, LargeErrorFails) {
  Certificate one = certificate();
  one.parameters[1].relative_error = 2.5e-2;
  EXPECT_FALSE(one.holds());
  EXPECT_TRUE(certificate_text(one).ends_with(
      "FAIL  train: the largest relative error of 2 gradients is 2.5e-02, not below 1.0e-12\n"));
}

TEST(CertificateText, NanErrorFails) {
  Certificate one = certificate();
  one.parameters[0].relative_error = std::nan("");
  EXPECT_FALSE(one.holds());
  EXPECT_TRUE(certificate_text(one).ends_with("is nan, not below 1.0e-12\n"));
}

TEST(CertificateText, ChangedRunningMeanFails) {
  Certificate one = certificate();
  one.changed = {"buffer bn.running_mean"};
  EXPECT_FALSE(one.holds());
  EXPECT_TRUE(
      certificate_text(one).ends_with("changed: buffer bn.running_mean\n"
                                      "FAIL  train: the largest relative error of 2 gradients is "
                                      "3.1e-16, but other values differ too: buffer "
                                      "bn.running_mean\n"));
}

TEST(CertificateText, RefusedCertificateFails) {
  EXPECT_EQ(certificate_text({.node = "train", .refused = "BatchNorm mixes samples"}),
            "FAIL  train: BatchNorm mixes samples\n");
  EXPECT_EQ(certificate_text({.node = "train"}), "FAIL  train: no gradient was compared\n");
}

}  // namespace
}  // namespace runner
