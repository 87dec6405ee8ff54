#include "stages/train/save_rule.h"

#include <chrono>

#include "runner/shared/stage/config_reader.h"

namespace stages {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

SaveOptions read_save_options(runner::ConfigReader& reader) {
  SaveOptions options;
  runner::ConfigReader& every = reader.section("every");
  every.read("steps", options.every.steps);
  every.read("minutes", options.every.minutes);
  every.read("epochs", options.every.epochs);
  reader.read("keep_last", options.keep_last);
  reader.read("keep_best", options.keep_best);
  return options;
}

}  // namespace stages
