#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace runner {

/// True if the name of an environment variable suggests that its value is a secret: it contains
/// TOKEN, KEY, SECRET, PASSWORD, PASSWD, PASSPHRASE, AUTH or CREDENTIAL, or ends with PASS, in any
/// case; except for `author` and `bypass`.
bool names_a_secret(std::string_view variable);

/// True if the key of a recipe or an override, "+vars.api_key", suggests that its value is a
/// secret. Same rules as names_a_secret(), but `tokenizer` in a key is ignored.
bool is_secret_key(std::string_view key);

/// The same for a key whose value is a number, which may count tokens or be the size of a key: the
/// key must end with such a word; for TOKEN or KEY the number must also have six digits.
bool is_secret_key_of(std::string_view key, std::int64_t number);

/// A line of a recipe, or an override, as a message may quote it: the value of a secret key, and
/// the secrets of a URL, become ***, with as many characters as the original.
std::string quotable_line(std::string_view line);

/// `text` with the secrets of each URL replaced by ***: "http://me:***@host/x?token=***". For HTTP,
/// a user without a password is also a secret: GitHub's tokens are written that way.
std::string without_url_secrets(std::string_view text);

/// True if `path` begins as an address does, "s3://": it names no file or folder that can be
/// written.
bool is_address(std::string_view path);

/// A message without the secrets that it quotes, "unknown key 'a' in '+vars.password=***'", and
/// those of URLs.
std::string without_quoted_secrets(std::string_view message);

}  // namespace runner
