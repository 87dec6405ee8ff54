#define PCRE2_CODE_UNIT_WIDTH 8
#include "stages/model/expression.h"

#include <stdexcept>

#include <pcre2.h>

#include "runner/stage/stage.h"

namespace stages {
namespace {

constexpr std::size_t kLongest = 4096;         // bytes of an expression
constexpr std::uint32_t kMostSteps = 100'000;  // of a match: a good one of a module's name takes hundreds
constexpr std::uint32_t kMostMemory = 1024;    // KiB of a match

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
};

Expression::Expression(std::string_view text) : text_(text), compiled_(std::make_unique<Compiled>()) {
  if (text.size() > kLongest) throw std::invalid_argument("it is longer than " + std::to_string(kLongest) + " bytes");
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                  PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF, &error, &offset, nullptr);
  if (!compiled_->code) {
    unsigned char message[256] = {};
    pcre2_get_error_message(error, message, sizeof message);
    throw std::invalid_argument(std::string(reinterpret_cast<const char*>(message)) + " at character " +
                                std::to_string(offset));
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

std::optional<std::string> Expression::capture(std::string_view name) const {
  const int count = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0,
                                compiled_->found, compiled_->limits);
  if (count == PCRE2_ERROR_NOMATCH || (count <= PCRE2_ERROR_UTF8_ERR1 && count >= PCRE2_ERROR_UTF8_ERR21)) {
    return std::nullopt;
  }
  if (count < 0) {
    throw runner::StageError(runner::ErrorCode::kBadPattern,
                             "the expression '" + text_ + "' takes too long to match '" + std::string(name) + "'")
        .with_help("write it without repetitions inside repetitions");
  }
  PCRE2_UCHAR* taken = nullptr;
  PCRE2_SIZE length = 0;
  if (pcre2_substring_get_byname(compiled_->found, reinterpret_cast<PCRE2_SPTR>("idx"), &taken, &length) != 0) {
    return std::string();
  }
  std::string group(reinterpret_cast<const char*>(taken), length);
  pcre2_substring_free(taken);
  return group;
}

}  // namespace stages
