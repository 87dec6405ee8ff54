#include "runner/shared/value/parse_json.h"

#include <sstream>

namespace runner {
namespace {

constexpr std::size_t kDeepestJson =
    256;  // a recipe is at most 64 levels deep; records that contain it are slightly deeper

}  // namespace

bool nests_deeper(std::string_view text, std::size_t depth) {
  std::size_t open = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (letter == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
    } else if (letter == '[' || letter == '{') {
      if (++open > depth) return true;
    } else if ((letter == ']' || letter == '}') && open > 0) {
      --open;
    }
  }
  return false;
}

template <typename Json>
Json parse_json(std::string_view text) {
  // JSON contains no NUL, which the library treats as the end of the text.
  if (nests_deeper(text, kDeepestJson) || text.find('\0') != text.npos)
    return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

template <typename Json>
Json parse_json(std::istream& file) {
  std::ostringstream text;
  text << file.rdbuf();  // if the path is a folder, the text remains empty
  return parse_json<Json>(std::string_view(text.view()));
}

template nlohmann::json parse_json(std::string_view);
template nlohmann::ordered_json parse_json(std::string_view);
template nlohmann::json parse_json(std::istream&);
template nlohmann::ordered_json parse_json(std::istream&);

}  // namespace runner
