#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace runner {

/// Does the name of an environment variable tell that its value is a secret? It holds TOKEN, KEY,
/// SECRET, PASSWORD, PASSWD, PASSPHRASE, AUTH or CREDENTIAL, or ends with PASS, in small letters or
/// capitals; `author` and `bypass` are none.
bool names_a_secret(std::string_view variable);

/// Does the key of a recipe or an override, "+vars.api_key", tell that what it holds is a secret?
/// As names_a_secret(), but a key with `tokenizer` in it is judged by the rest of it.
bool is_secret_key(std::string_view key);

/// And where that is a number? It may as well count tokens, or be the size of a key: the key ends
/// with such a word, and with TOKEN or KEY where the number has six digits.
bool is_secret_key_of(std::string_view key, std::int64_t number);

/// A line of a recipe, or an override, as a message may quote it: what follows the key of a secret,
/// and the secrets of a URL, are ***, of as many characters as there were.
std::string quotable_line(std::string_view line);

/// `text` with the secrets of each URL in it as ***: "http://me:***@host/x?token=***". A user
/// without a password is one too where the protocol is HTTP: GitHub's tokens are written so.
std::string without_url_secrets(std::string_view text);

/// A message without the secrets that it quotes: "unknown key 'a' in '+vars.password=***'", and
/// those of URLs.
std::string without_quoted_secrets(std::string_view message);

}  // namespace runner
