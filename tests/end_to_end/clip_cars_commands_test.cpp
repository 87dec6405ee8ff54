// Plans commands of the published CLIP training on cars in
// tests/cases/published_commands.case, on data in the published formats and with small towers. A
// command that can be planned can be run.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/car_listing.h"
#include "tests/support/program.h"
#include "tests/support/published_commands.h"
#include "tests/support/small_clip.h"

namespace {

TEST(ClipCarsCommands, ValidCommandsCanBePlanned) {
  const TemporaryFolder folder;
  const Ended cars = retort(
      "data make stanford_cars --out cars --classes 4 --per-class 100 --size 16 -q", folder.path());
  ASSERT_EQ(cars.exit, 0) << cars.err;
  const Ended listing = make_car_listing(folder.path(), 4, 60);
  ASSERT_EQ(listing.exit, 0) << listing.err;
  const std::vector<PublishedCommand> commands = published_commands("clip_cars");
  EXPECT_GT(commands.size(), 9U);
  for (const auto& [arguments, is_refused] : commands_to_plan(commands)) {
    const Ended planned = retort("plan " + arguments + " device=cpu " + kSmallClip, folder.path());
    EXPECT_EQ(planned.exit, is_refused ? 78 : 0) << arguments << '\n' << planned.err;
    if (!is_refused)
      EXPECT_THAT(planned.out, testing::HasSubstr("fits: the run needs the most memory at "))
          << arguments;
  }
}

}  // namespace
