#include "runner/parent/report/sparkline.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

namespace runner {
namespace {

constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 8> kLetters = {"_", ".", "-", "=", "+", "*", "#", "@"};

bool is_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first that is set holds
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    std::string locale = value;
    std::ranges::transform(locale, locale.begin(), [](unsigned char letter) { return std::tolower(letter); });
    return locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

/// How many columns so many points take.
std::size_t columns_for(std::size_t points, const TextStyle& style) { return std::min(points, style.width); }

}  // namespace

TextStyle standard_output_style() {
  const char* terminal = std::getenv("TERM");
  if (!isatty(STDOUT_FILENO) || !terminal || std::string_view(terminal) == "dumb") return {};
  TextStyle style{.has_blocks = is_utf8_locale()};
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = size.ws_col;
  return style;
}

std::string sparkline(std::span<const std::int64_t> values, const TextStyle& style) {
  const std::size_t columns = columns_for(values.size(), style);
  if (columns == 0) return "";
  const auto& levels = style.has_blocks ? kBlocks : kLetters;
  const std::int64_t top = std::max<std::int64_t>(1, *std::ranges::max_element(values));
  std::string line;
  for (std::size_t i = 0; i < columns; ++i) {
    const std::size_t first = i * values.size() / columns, last = (i + 1) * values.size() / columns;
    const std::int64_t value = *std::max_element(values.begin() + first, values.begin() + last);
    if (value <= 0) {
      line += ' ';
      continue;
    }
    const double share = static_cast<double>(value) / static_cast<double>(top);
    line += levels[std::min(levels.size() - 1, static_cast<std::size_t>(share * levels.size()))];
  }
  return line;
}

std::string phase_line(std::span<const PhaseMark> phases, std::size_t points, const TextStyle& style) {
  const std::size_t columns = columns_for(points, style);
  struct Name {
    std::string_view text;
    std::size_t at = 0, lasts = 0;
  };
  std::vector<Name> names;
  for (std::size_t i = 0; i < phases.size() && points > 0; ++i) {
    const std::size_t begin = std::min(phases[i].point, points);
    const std::size_t end = i + 1 < phases.size() ? std::min(phases[i + 1].point, points) : points;
    names.push_back({phases[i].phase, begin * columns / points, end > begin ? end - begin : 0});
  }
  std::ranges::stable_sort(names, std::greater(), &Name::lasts);
  std::string line(columns, ' ');
  for (const Name& name : names) {
    if (name.lasts == 0 || name.at + name.text.size() > columns) continue;
    const std::size_t before = name.at == 0 ? 0 : name.at - 1;
    const std::size_t after = std::min(columns, name.at + name.text.size() + 1);
    if (line.substr(before, after - before).find_first_not_of(' ') != line.npos) continue;
    line.replace(name.at, name.text.size(), name.text);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace runner
