#include "runner/shared/stage/plan_context.h"

#include <cmath>

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(Certificate, HoldsBelowItsLimit) {
  Certificate one{.node = "train",
                  .compared = "",
                  .parameters = {{"a", 1e-15}, {"b", 9e-13}},
                  .changed = {},
                  .refused = ""};
  EXPECT_TRUE(one.holds());
  EXPECT_EQ(one.worst(), 9e-13);
  one.parameters[0].relative_error = 1e-12;
  EXPECT_FALSE(one.holds());
  one.limit = Certificate::kLimitOfNormed;
  EXPECT_TRUE(one.holds());
}

TEST(Certificate, NanErrorIsNotEqual) {
  for (const std::size_t at : {0, 1}) {
    Certificate one{.node = "train",
                    .compared = "",
                    .parameters = {{"a", 0}, {"b", 0}},
                    .changed = {},
                    .refused = ""};
    one.parameters[at].relative_error = std::nan("");
    EXPECT_TRUE(std::isnan(one.worst()));
    EXPECT_FALSE(one.holds());
  }
}

TEST(Certificate, SurvivesJsonWithNonFiniteNumbers) {
  Certificate one{.node = "train",
                  .compared = "c",
                  .parameters = {{"a", 0}, {"b", 1e-15}},
                  .changed = {"x"},
                  .refused = "no",
                  .limit = 1e-9};
  one.parameters[0].relative_error = INFINITY;
  EXPECT_EQ(certificate_from_json(nlohmann::ordered_json::parse(to_json(one).dump())), one);
  one.parameters[0].relative_error = std::nan("");
  const Certificate back =
      certificate_from_json(nlohmann::ordered_json::parse(to_json(one).dump()));
  EXPECT_TRUE(std::isnan(back.worst()));
}

TEST(Certificate, MalformedCertificateIsReportedWithItsLocation) {
  const auto refusal = [](const auto& change) -> std::string {
    nlohmann::ordered_json broken = to_json(Certificate{.node = "train",
                                                        .compared = "c",
                                                        .parameters = {{"a", 0}},
                                                        .changed = {"x"},
                                                        .refused = ""});
    change(broken);
    try {
      certificate_from_json(broken);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "read";
  };
  EXPECT_EQ(refusal([](auto& json) { json["parameters"][0]["relative_error"] = "much"; }),
            "a parameter of the certificate has a 'relative_error' that is not a number");
  EXPECT_EQ(refusal([](auto& json) { json["parameters"][0]["error"] = 1; }),
            "a parameter of the certificate has an unknown 'error'");
  EXPECT_EQ(refusal([](auto& json) { json["nodes"] = 1; }),
            "the certificate has an unknown 'nodes'");
  EXPECT_EQ(refusal([](auto& json) { json["changed"] = {1}; }),
            "the certificate has a 'changed' that is not a list of strings");
  EXPECT_EQ(refusal([](auto& json) { json.erase("node"); }), "the certificate has no 'node'");
}

}  // namespace
}  // namespace runner
