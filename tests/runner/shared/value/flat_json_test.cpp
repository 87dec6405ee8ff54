#include "runner/shared/value/flat_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(FlatJson, NestedKeysAreJoinedInOrder) {
  const nlohmann::ordered_json json = {
      {"train", {{"epochs", 2}, {"note", "a, b"}}}, {"list", {1, "x"}}, {"none", nullptr}};
  EXPECT_THAT(flat_json(json), ElementsAre(Pair("train.epochs", "2"), Pair("train.note", "a, b"),
                                           Pair("list", R"([1,"x"])"), Pair("none", "null")));
}

TEST(FlatJson, EmptyObjectIsAValueUnlessItIsTheRoot) {
  EXPECT_THAT(flat_json({{"a", nlohmann::ordered_json::object()}}), ElementsAre(Pair("a", "{}")));
  EXPECT_THAT(flat_json(nlohmann::ordered_json::object()), IsEmpty());
  EXPECT_THAT(flat_json(nullptr), IsEmpty());
}

}  // namespace
}  // namespace runner
