#include "runner/stage/certificate.h"

#include <cmath>

#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(Certificate, HoldsBelowItsLimit) {
  Certificate one{
      .node = "train", .compared = "", .parameters = {{"a", 1e-15}, {"b", 9e-13}}, .changed = {}, .refused = ""};
  EXPECT_TRUE(one.holds());
  EXPECT_EQ(one.worst(), 9e-13);
  one.parameters[0].relative_error = 1e-12;
  EXPECT_FALSE(one.holds());
}

TEST(Certificate, AnErrorThatIsNotANumberIsNotEqual) {
  for (const std::size_t at : {0, 1}) {
    Certificate one{.node = "train", .compared = "", .parameters = {{"a", 0}, {"b", 0}}, .changed = {}, .refused = ""};
    one.parameters[at].relative_error = std::nan("");
    EXPECT_TRUE(std::isnan(one.worst()));
    EXPECT_FALSE(one.holds());
  }
}

TEST(Certificate, SurvivesJsonWithWhatIsNotANumber) {
  Certificate one{
      .node = "train", .compared = "c", .parameters = {{"a", 0}, {"b", 1e-15}}, .changed = {"x"}, .refused = "no"};
  one.parameters[0].relative_error = INFINITY;
  EXPECT_EQ(certificate_from_json(nlohmann::ordered_json::parse(to_json(one).dump())), one);
  one.parameters[0].relative_error = std::nan("");
  const Certificate back = certificate_from_json(nlohmann::ordered_json::parse(to_json(one).dump()));
  EXPECT_TRUE(std::isnan(back.worst()));
  nlohmann::ordered_json broken = to_json(one);
  broken["parameters"][0]["relative_error"] = "much";
  EXPECT_THROW(certificate_from_json(broken), std::runtime_error);
}

}  // namespace
}  // namespace runner
