#include "runner/parent/config/provenance.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/config/yaml_reader.h"

namespace runner {
namespace {

class DifferenceTest : public testing::Test {
 protected:
  std::vector<Difference> between(const std::string& before, const std::string& after) {
    return differences(*read_yaml(sources_.add("a.yaml", before)),
                       *read_yaml(sources_.add("b.yaml", after)));
  }

  Sources sources_;
};

TEST_F(DifferenceTest, EqualRecipesHaveNoDifferences) {
  EXPECT_TRUE(between("a: {b: [1, 2]}\nc: x\n", "c: x\na: {b: [1, 2.0]}\n").empty());
}

TEST_F(DifferenceTest, ChangedAddedAndRemovedKeysShowTheirOrigins) {
  EXPECT_EQ(
      differences_text(between("a: 1\nb: {c: x, d: [1]}\n", "a: 2\nb:\n  d: [1, 2]\n  e: null\n")),
      "~ a: 1 -> 2            # a.yaml:1 -> b.yaml:1\n"
      "- b.c: x               # a.yaml:2\n"
      "~ b.d: [1] -> [1,2]    # a.yaml:2 -> b.yaml:3\n"
      "+ b.e: null            # b.yaml:4\n");
}

TEST_F(DifferenceTest, NewMappingIsListedByItsValues) {
  const auto found = between("{}", "a: {b: {c: 1}, d: {}}");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].key, "a.b.c");
  EXPECT_EQ(found[1].key, "a.d");
}

TEST_F(DifferenceTest, OverrideIsShownAsTyped) {
  Value before{1, {}}, after{2, {&sources_.add("override 1", "lr=2"), 1, 4}};
  EXPECT_EQ(differences_text({{"train.lr", before, after}}),
            "~ train.lr: 1 -> 2    # override 'lr=2'\n");
}

TEST_F(DifferenceTest, SecretsStayInterpolations) {
  Value secret{"hunter2", {}};
  secret.secret_as = "${oc.env:API_KEY}";
  EXPECT_EQ(differences_text({{"key", std::nullopt, secret}}), "+ key: \"${oc.env:API_KEY}\"\n");
  EXPECT_EQ(differences_json({{"key", std::nullopt, secret}}).dump().find("hunter2"),
            std::string::npos);
}

}  // namespace
}  // namespace runner
