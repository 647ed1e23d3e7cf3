<?php
// Hashes of PHP and of Symfony. On Debian:
//   apt-get install php-cli php-symfony-password-hasher
//   php make.php > php.ndjson

require '/usr/share/php/Symfony/Component/PasswordHasher/autoload.php';

use Symfony\Component\PasswordHasher\Hasher\MessageDigestPasswordHasher;
use Symfony\Component\PasswordHasher\Hasher\NativePasswordHasher;

const PASSWORD = 'correct horse battery staple é';

function line(string $by, string|array $hash, string $password = PASSWORD, array $allow = []): void
{
    echo json_encode(['by' => $by, 'password' => $password, 'hash' => $hash, 'allow' => $allow], JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES), "\n";
}

function symfony(string $algorithm, bool $base64, int $iterations, ?string $salt, array $allow = []): void
{
    $hash = (new MessageDigestPasswordHasher($algorithm, $base64, $iterations))->hash(PASSWORD, $salt);
    line('symfony', ['scheme' => 'symfony', 'algorithm' => $algorithm, 'iterations' => $iterations, 'base64' => $base64, 'salt' => $salt, 'hash' => $hash], PASSWORD, $allow);
}

symfony('sha512', true, 5000, 'dkq6ac35kvk0ok88ck4gskskc8oww48');
symfony('sha512', false, 5000, '');
symfony('sha512', true, 5000, null);
symfony('sha256', true, 2, 'salt é');
symfony('sha512', true, 1, 'salt', ['digest']);
symfony('sha512', true, 1, '', ['digest', 'unsalted']);
symfony('sha1', false, 5000, 'salt', ['digest']);
symfony('md5', false, 10, 'salt', ['digest']);
line('symfony', (new NativePasswordHasher(null, null, 12, PASSWORD_BCRYPT))->hash(PASSWORD));
line('symfony', (new NativePasswordHasher(3, 65536 * 1024, null, PASSWORD_ARGON2ID))->hash(PASSWORD));
line('php', password_hash(PASSWORD, PASSWORD_DEFAULT));
line('php', password_hash(PASSWORD, PASSWORD_BCRYPT, ['cost' => 8]));
line('php', password_hash(PASSWORD, PASSWORD_ARGON2I, ['memory_cost' => 65536, 'time_cost' => 4, 'threads' => 1]));
line('php', password_hash(str_repeat('x', 72), PASSWORD_BCRYPT, ['cost' => 4]), str_repeat('x', 72));
line('php', password_hash(str_repeat('y', 100), PASSWORD_BCRYPT, ['cost' => 4]), str_repeat('y', 100));
line('php', password_hash('', PASSWORD_BCRYPT, ['cost' => 4]), '');
line('php', crypt(PASSWORD, '$5$rounds=1234$saltsalt'));
line('php', crypt(PASSWORD, '$6$sixteencharssalt'));
foreach (['md5', 'sha1', 'sha256', 'sha512'] as $algorithm) {
    $columns = ['scheme' => 'digest', 'algorithm' => $algorithm];
    line('php', $columns + ['hash' => hash($algorithm, PASSWORD)], PASSWORD, ['digest', 'unsalted']);
    line('php', $columns + ['hash' => hash($algorithm, PASSWORD . 'sält'), 'salt' => 'sält'], PASSWORD, ['digest']);
    line('php', $columns + ['hash' => base64_encode(hash($algorithm, 'pepper' . PASSWORD, true)), 'salt' => 'pepper', 'salt_first' => true, 'base64' => true], PASSWORD, ['digest']);
}
