#define PCRE2_CODE_UNIT_WIDTH 8
#include "stages/text/expression.h"

#include <stdexcept>

#include <pcre2.h>

#include "runner/shared/stage/stage.h"

namespace stages {
namespace {

constexpr std::size_t kLongest = 4096;  // the maximum length of an expression in bytes
// The maximum number of steps per match; a reasonable expression needs hundreds.
constexpr std::uint32_t kMostSteps = 100'000;
constexpr std::uint32_t kMostMemory = 1024;  // KiB per match

}  // namespace

struct Expression::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_data* found = nullptr;
  pcre2_match_context* limits = nullptr;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_match_context_free(limits);
    pcre2_match_data_free(found);
    pcre2_code_free(code);
  }

  /// Returns the number of the group called `name`; below 1 if there is none.
  int number_of(const char* name) const {
    return pcre2_substring_number_from_name(code, reinterpret_cast<PCRE2_SPTR>(name));
  }
  /// Returns the text that group `number` captured in the last match.
  std::string taken(int number) const {
    PCRE2_UCHAR* text = nullptr;
    PCRE2_SIZE length = 0;
    if (pcre2_substring_get_bynumber(found, static_cast<std::uint32_t>(number), &text, &length) !=
        0)
      return "";
    std::string group(reinterpret_cast<const char*>(text), length);
    pcre2_substring_free(text);
    return group;
  }
};

Expression::Expression(std::string_view text, Extent extent)
    : text_(text), compiled_(std::make_unique<Compiled>()) {
  if (text.size() > kLongest)
    throw std::invalid_argument("it is longer than " + std::to_string(kLongest) + " bytes");
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::uint32_t anchors = extent == Extent::kWhole ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0;
  compiled_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                  anchors | PCRE2_UTF, &error, &offset, nullptr);
  if (!compiled_->code) {
    unsigned char message[256] = {};
    pcre2_get_error_message(error, message, sizeof message);
    throw std::invalid_argument(std::string(reinterpret_cast<const char*>(message)) +
                                " at character " + std::to_string(offset));
  }
  compiled_->found = pcre2_match_data_create_from_pattern(compiled_->code, nullptr);
  compiled_->limits = pcre2_match_context_create(nullptr);
  if (!compiled_->found || !compiled_->limits) throw std::bad_alloc();
  pcre2_set_match_limit(compiled_->limits, kMostSteps);
  pcre2_set_heap_limit(compiled_->limits, kMostMemory);
}

Expression::~Expression() = default;
Expression::Expression(Expression&&) noexcept = default;
Expression& Expression::operator=(Expression&&) noexcept = default;

int Expression::match(std::string_view name) const {
  const int count = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(name.data()),
                                name.size(), 0, 0, compiled_->found, compiled_->limits);
  if (count == PCRE2_ERROR_NOMATCH ||
      (count <= PCRE2_ERROR_UTF8_ERR1 && count >= PCRE2_ERROR_UTF8_ERR21))
    return 0;
  if (count < 0) {
    throw runner::StageError(
        runner::ErrorCode::kBadPattern,
        "the expression '" + text_ + "' takes too long to match '" + std::string(name) + "'")
        .with_help("write it without nested repetitions");
  }
  return count;
}

std::optional<std::string> Expression::capture(std::string_view name) const {
  if (match(name) == 0) return std::nullopt;
  const int number = compiled_->number_of("idx");
  return number > 0 ? compiled_->taken(number) : "";
}

bool Expression::has_groups() const {
  std::uint32_t count = 0;
  pcre2_pattern_info(compiled_->code, PCRE2_INFO_CAPTURECOUNT, &count);
  return count > 0;
}

std::optional<std::string> Expression::capture_or_first(std::string_view name,
                                                        const char* group) const {
  if (match(name) == 0) return std::nullopt;
  const int number = compiled_->number_of(group);
  return compiled_->taken(number > 0 ? number : 1);
}

}  // namespace stages
