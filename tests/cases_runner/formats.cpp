#include "tests/cases_runner/formats.h"

#include <array>

std::span<const Format> all_formats() {
  static constexpr std::array kFormats = {
      Format{"parse.jsonl", check_parse}, Format{"compose.jsonl", check_compose},
      Format{"sweep.jsonl", check_sweep}, Format{"interp.jsonl", check_interp},
      Format{"yaml.jsonl", check_yaml},
  };
  return kFormats;
}
