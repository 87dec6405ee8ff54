#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace runner {

/// True if the name of an environment variable suggests that its value is a secret: it contains
/// TOKEN, KEY, SECRET, PASSWORD, PASSWD, PASSPHRASE, AUTH or CREDENTIAL, or ends with PASS,
/// ignoring case, except for `author` and `bypass`.
bool names_a_secret(std::string_view variable);

/// True if the key of a recipe or an override, such as "+vars.api_key", suggests that its value is
/// a secret. Uses the rules of names_a_secret(), except that `tokenizer` in a key is ignored.
bool is_secret_key(std::string_view key);

/// True if a key with a numeric value suggests a secret. Since the number could also be a token
/// count or a key size, the key must end with one of the words; for TOKEN and KEY, the number must
/// also have at least six digits.
bool is_secret_key_of(std::string_view key, std::int64_t number);

/// Returns a line of a recipe, or an override, with its secrets masked, for quoting in a message.
/// In the values of secret keys and the secrets in URLs, every character is replaced by '*'.
std::string quotable_line(std::string_view line);

/// Returns `text` with the secrets in its URLs replaced by ***: "http://me:***@host/x?token=***".
/// In HTTP URLs, a user name without a password is also a secret, since GitHub tokens are written
/// that way.
std::string without_url_secrets(std::string_view text);

/// True if `path` begins with a URL scheme, such as "s3://", and thus does not name a file or
/// folder that can be written.
bool is_address(std::string_view path);

/// Masks the secrets that `message` quotes, as in "unknown key 'a' in '+vars.password=***'", and
/// the secrets in its URLs.
std::string without_quoted_secrets(std::string_view message);

}  // namespace runner
