// Plans every command of the published CLIP training on cars in
// tests/cases/published_commands.case, on data in the published formats and with small towers. A
// command that can be planned can be run.

#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/car_listing.h"
#include "tests/support/program.h"
#include "tests/support/small_clip.h"

namespace {

struct CarsCommand {
  std::string arguments;  ///< "clip_cars_as_published epochs=20 lr=2e-5"
  bool is_refused = false;
};

std::vector<CarsCommand> cars_commands() {
  std::vector<CarsCommand> commands;
  std::size_t of_section = 0;
  std::ifstream file(RETORT_SOURCE_DIR "/tests/cases/published_commands.case");
  for (std::string line; std::getline(file, line);) {
    const std::string start = "retort run ";
    if (line.starts_with("=== ")) of_section = commands.size();
    if (line.starts_with(start + "clip_cars"))
      commands.push_back({.arguments = line.substr(start.size())});
    if (line != "--- errors") continue;
    for (std::size_t i = of_section; i < commands.size(); ++i) commands[i].is_refused = true;
  }
  return commands;
}

TEST(ClipCarsCommands, ValidCommandsCanBePlanned) {
  const TemporaryFolder folder;
  const Ended cars = retort(
      "data make stanford_cars --out cars --classes 4 --per-class 100 --size 16 -q", folder.path());
  ASSERT_EQ(cars.exit, 0) << cars.err;
  const Ended listing = make_car_listing(folder.path(), 4, 60);
  ASSERT_EQ(listing.exit, 0) << listing.err;
  const std::vector<CarsCommand> commands = cars_commands();
  EXPECT_GT(commands.size(), 9U);
  for (const auto& [arguments, is_refused] : commands) {
    const Ended planned = retort("plan " + arguments + " device=cpu " + kSmallClip, folder.path());
    EXPECT_EQ(planned.exit, is_refused ? 78 : 0) << arguments << '\n' << planned.err;
    if (!is_refused)
      EXPECT_THAT(planned.out, testing::HasSubstr("fits: the run needs the most memory at "))
          << arguments;
  }
}

}  // namespace
