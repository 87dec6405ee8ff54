#include "stages/train/save_rule.h"

#include "runner/stage/config_reader.h"

namespace stages {

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
